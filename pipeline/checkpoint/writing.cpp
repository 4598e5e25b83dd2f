#include "pipeline/checkpoint/writing.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/output_file.hpp"
#include "pipeline/checkpoint/saved.hpp"

namespace penstock {

std::string stage_file_name(int stage) { return fmt::format("stage-{}.safetensors", stage); }

std::vector<std::string> stage_contents(const Graph& graph, const StageSlice& stage,
                                        const std::set<std::string>& held) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (held.contains(name)) names.push_back(name);
  };
  for (const BufferUpdate& update : stage.updates)
    add("buffer." + graph.tensors[static_cast<size_t>(update.tensor)].name);
  for (const int index : stage.tensors) {
    const std::string& name = graph.tensors[static_cast<size_t>(index)].name;
    add("parameter." + name);
    add("steps." + name);
    const std::string prefix = "optimizer." + name + ".";
    for (auto at = held.lower_bound(prefix); at != held.end() && at->starts_with(prefix); ++at) {
      if (at->find('.', prefix.size()) == std::string::npos) names.push_back(*at);
    }
  }
  return names;
}

std::filesystem::path begin_checkpoint(const Saving& saving) {
  remove_unfinished(saving.folder);
  std::filesystem::path unfinished = unfinished_path(saving.folder, saving.step);
  make_folder(unfinished);
  return unfinished;
}

void put_together(const Saving& saving, const CheckpointManifest& manifest) {
  const std::filesystem::path unfinished = unfinished_path(saving.folder, saving.step);
  write_file(unfinished / "manifest.json", to_json(manifest));
  put_in_place(unfinished, checkpoint_path(saving.folder, saving.step));
  remove_earlier(saving.folder, manifest, saving.keep);
}

InputError not_saved(const Saving& saving, const std::string& problem) {
  return {checkpoint_path(saving.folder, saving.step).string(), "is not saved: " + problem};
}

}  // namespace penstock
