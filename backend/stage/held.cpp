#include "backend/stage/held.hpp"

#include <utility>

namespace penstock {

void GradientRouter::deliver(Held* held, ValueId value, at::Tensor gradient) {
  switch (recipe_.role(value)) {
    case ValueRole::parameter:
      recipe_.store.accumulate(recipe_.value(value).tensor, std::move(gradient));
      break;
    case ValueRole::view: {
      const ParameterViews::View& view = recipe_.roles.views.at(value);
      recipe_.store.accumulate(view.tensor, view.geometry, gradient);
      break;
    }
    case ValueRole::step_chain:
      gradient = gradient.to(recipe_.store.sum_type(gradient.scalar_type()));
      step_chain_.add(value, std::move(gradient));
      break;
    case ValueRole::microbatch_chain: held->chain.add(value, std::move(gradient)); break;
    default: break;
  }
}

}  // namespace penstock
