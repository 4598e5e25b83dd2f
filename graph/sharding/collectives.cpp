#include "graph/sharding/collectives.hpp"

namespace penstock::sharding {
namespace {

constexpr const char* gather_again = "penstock::all_gather_again";

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

}  // namespace penstock::sharding
