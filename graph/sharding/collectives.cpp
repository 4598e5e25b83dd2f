#include "graph/sharding/collectives.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"

namespace penstock::sharding {
namespace {

constexpr const char* gather_again = "penstock::all_gather_again";
constexpr const char* of_classes = "penstock::cross_entropy_of_classes";

std::string operator_name(Step step) {
  switch (step) {
    case Step::keep: return "identity";
    case Step::slice: return "own_part";
    case Step::pad: return "among_zeros";
    default: return std::string(name(step));
  }
}

}  // namespace

Operator conversion_operator(const Conversion& conversion, ValueId value, bool again) {
  Operator op;
  op.target = again ? gather_again : "penstock::" + operator_name(conversion.forward);
  op.arguments = {{"self", TensorRef{value}, false},
                  {"from", conversion.from.str(), false},
                  {"to", conversion.to.str(), false}};
  return op;
}

std::optional<Conversion> conversion_of(const Operator& op) {
  if (!op.target.starts_with("penstock::") || op.arguments.size() != 3) return std::nullopt;
  const auto layout = [&](size_t argument) -> std::optional<Layout> {
    const auto* text = std::get_if<std::string>(&op.arguments[argument].value);
    return text ? Layout::parse(*text) : std::nullopt;
  };
  const auto from = layout(1), to = layout(2);
  if (!from || !to) return std::nullopt;
  return conversion(*from, *to);
}

bool gathers_again(const Operator& op) { return op.target == gather_again; }

Operator embedding_of_rows(Operator embedding, const Layout& held, const Expression& rows) {
  embedding.target = "penstock::embedding_of_rows";
  std::erase_if(embedding.arguments, [](const Argument& argument) {
    return argument.name == "scale_grad_by_freq" || argument.name == "sparse";
  });
  embedding.arguments.push_back({"rows", rows, true});
  embedding.arguments.push_back({"held", held.str(), true});
  return embedding;
}

Operator cross_entropy_of_classes(Operator loss, const Layout& held, const Expression& classes) {
  loss.target = of_classes;
  loss.arguments.push_back({"classes", classes, true});
  loss.arguments.push_back({"held", held.str(), true});
  return loss;
}

int64_t class_bytes(const Value& logits, const Layout& held, int64_t batch, int parts) {
  const int64_t classes = logits.shape[held.dimension()].at(batch);
  const int64_t rows = logits.elements(batch) / std::max<int64_t>(classes, 1);
  return parts * rows * class_numbers *
         std::max(size_bytes(logits.dtype), size_bytes(DType::float32));
}

std::optional<Layout> split_classes(const Operator& op) {
  if (op.target != of_classes) return std::nullopt;
  const auto* held = std::get_if<std::string>(argument(op, "held"));
  return held ? Layout::parse(*held) : std::nullopt;
}

std::optional<Layout> split_classes(const Graph& local) {
  return local.outputs.empty() ? std::nullopt : Layout::parse(local.outputs.front().held);
}

}  // namespace penstock::sharding
