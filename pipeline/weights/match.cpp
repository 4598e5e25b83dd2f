#include "pipeline/weights/match.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace penstock {
namespace {

constexpr size_t kNamed = 8;

/// Turns a name of the model into one of the files.
struct Renaming {
  std::string added, removed;  // at most one of them, with its dot

  std::string operator()(const std::string& name) const {
    if (name.starts_with(removed)) return added + name.substr(removed.size());
    return name;
  }
};

/// The name in the files, which is first looked for as it is: a head often has no prefix.
std::optional<std::string> find_name(const StateFiles& files, const StoredTensor& tensor,
                                     const Renaming& renaming) {
  for (const std::string& name : tensor.names())
    for (const std::string& there : {name, renaming(name)})
      if (files.tensors().contains(there)) return there;
  return std::nullopt;
}

size_t count_found(const StateFiles& files, const Graph& model, const Renaming& renaming) {
  return static_cast<size_t>(std::ranges::count_if(model.tensors, [&](const StoredTensor& tensor) {
    return tensor.in_state_dict() && find_name(files, tensor, renaming).has_value();
  }));
}

/// The part of `name` before `tail`, with its dot; empty if there is none.
std::string prefix_before(std::string_view name, std::string_view tail) {
  if (name.size() <= tail.size() || !name.ends_with(tail)) return "";
  const std::string_view prefix = name.substr(0, name.size() - tail.size());
  return prefix.ends_with('.') ? std::string(prefix) : "";
}

/// Renamings that would find the model's first tensor.
std::vector<Renaming> possible_renamings(const StateFiles& files, const Graph& model) {
  std::vector<Renaming> all{{}};
  const auto first = std::ranges::find_if(model.tensors, &StoredTensor::in_state_dict);
  if (first == model.tensors.end()) return all;
  for (const std::string& name : first->names()) {
    for (const auto& [there, file] : files.tensors()) {
      if (std::string added = prefix_before(there, name); !added.empty())
        all.push_back({added, ""});
      if (std::string removed = prefix_before(name, there); !removed.empty())
        all.push_back({"", removed});
    }
  }
  return all;
}

/// The renaming that finds most; none where it finds no more.
Renaming best_renaming(const StateFiles& files, const Graph& model) {
  Renaming best;
  size_t most = 0;
  for (const Renaming& candidate : possible_renamings(files, model)) {
    const size_t found = count_found(files, model, candidate);
    if (found <= most) continue;
    most = found;
    best = candidate;
  }
  return best;
}

std::string form_in_words(DType dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", name(dtype), fmt::join(shape, ", "));
}

bool is_complex(DType dtype) {
  return dtype == DType::complex32 || dtype == DType::complex64 || dtype == DType::complex128;
}

bool can_become(const SafetensorsEntry& entry, const StoredTensor& tensor) {
  const bool convertible = is_floating(entry.dtype) && is_floating(tensor.dtype) &&
                           is_complex(entry.dtype) == is_complex(tensor.dtype);
  return entry.shape == tensor.sizes && (convertible || entry.dtype == tensor.dtype);
}

/// `missing a, b and 3 more`, after what was said before.
void add_problem(std::string& text, const char* what, const std::vector<std::string>& items) {
  if (items.empty()) return;
  const size_t shown = std::min(items.size(), kNamed);
  text += fmt::format("{}{} {}", text.empty() ? "" : "; ", what,
                      fmt::join(items.begin(), items.begin() + static_cast<long>(shown), ", "));
  if (shown < items.size()) text += fmt::format(" and {} more", items.size() - shown);
}

/// Reasons why weights and model do not match, by kind.
struct Mismatches {
  std::vector<std::string> missing, unexpected, others;

  void refuse(const StateFiles& files) const {
    std::string text;
    add_problem(text, "lacks", missing);
    add_problem(text, "has, as the model does not,", unexpected);
    add_problem(text, "has in another form", others);
    if (text.empty()) return;
    throw InputError(files.path(), text,
                     "Give a state dictionary of this model, or export the model with the settings "
                     "that it was saved with.");
  }
};

std::vector<std::string> unexpected_names(const StateFiles& files, const Graph& model,
                                          const Renaming& renaming) {
  std::set<std::string> known;
  for (const StoredTensor& tensor : model.tensors) {
    for (const std::string& name : tensor.names()) known.insert({name, renaming(name)});
  }
  std::vector<std::string> names;
  for (const auto& [name, file] : files.tensors())
    if (!known.contains(name)) names.push_back(name);
  return names;
}

std::string in_words(const Renaming& renaming) {
  if (!renaming.added.empty())
    return fmt::format("names have `{}` before the model's", renaming.added);
  if (!renaming.removed.empty())
    return fmt::format("names lack the `{}` of the model's", renaming.removed);
  return "";
}

}  // namespace

MatchedWeights match_weights(const StateFiles& files, const Graph& model) {
  const Renaming renaming = best_renaming(files, model);
  MatchedWeights matched;
  Mismatches problems;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const StoredTensor& tensor = model.tensors[i];
    if (!tensor.in_state_dict()) continue;
    const auto name = find_name(files, tensor, renaming);
    if (!name) {
      problems.missing.push_back(tensor.name);
      continue;
    }
    const SafetensorsFile* file = files.tensors().at(*name);
    const SafetensorsEntry& entry = file->entry(*name);
    if (!can_become(entry, tensor)) {
      problems.others.push_back(fmt::format("{} ({}, the model's is {})", *name,
                                            form_in_words(entry.dtype, entry.shape),
                                            form_in_words(tensor.dtype, tensor.sizes)));
    }
    matched.tensors[static_cast<int>(i)] = {file, *name};
  }
  problems.unexpected = unexpected_names(files, model, renaming);
  problems.refuse(files);
  matched.renaming = in_words(renaming);
  return matched;
}

}  // namespace penstock
