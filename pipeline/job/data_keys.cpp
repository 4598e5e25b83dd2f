#include "pipeline/job/data_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/paths.hpp"
#include "base/yaml.hpp"

namespace penstock {

std::string kind_of_data(const std::string& path) {
  const std::string text = std::filesystem::path(path).extension().string();
  return text == ".safetensors" || text == ".bin" ? text : "text";
}

namespace {

constexpr const char* kRandom = "random";
constexpr std::array last_batch_names{"wrap", "drop", "pad"};
static_assert(last_batch_names.size() == static_cast<size_t>(LastBatch::pad) + 1);  // in its order

void refuse_key(YamlMap& map, const char* key, const char* problem, const char* cure) {
  if (map.has(key)) throw InputError(map.place(key), problem, cure);
}

void check_one_kind(YamlMap& map, const std::vector<std::string>& files) {
  if (files.empty()) {
    throw InputError(map.place("data"), "the list is empty", "Name a file, or remove the key.");
  }
  for (const std::string& path : files) {
    if (path == kRandom) {
      throw InputError(map.place("data"), "`random` among files",
                       "Write `data: random` alone, or ./random for a file of that name.");
    }
    if (kind_of_data(path) == kind_of_data(files.front())) continue;
    throw InputError(map.place("data"),
                     fmt::format("`{}` and `{}` are of different kinds", files.front(), path),
                     "Use only .safetensors files, or only .bin files of tokens, or only texts.");
  }
}

void parse_random(YamlMap& map, Job& job) {
  const char* shapes = "made-up data has the shapes that the model takes";
  const char* endless = "made-up data never ends, so it has no epochs";
  refuse_key(map, "sequence", shapes, "Remove the key.");
  refuse_key(map, "token_bytes", shapes, "Remove the key.");
  refuse_key(map, "shuffle", endless, "Remove the key.");
  refuse_key(map, "last_batch", endless, "Remove the key.");
  job.random_data = true;
}

void check_width(YamlMap& map, const Job& job, const std::string& kind) {
  if (job.token_bytes == 0) return;
  const std::string place = map.place("token_bytes");
  if (job.token_bytes == 3) {
    throw InputError(place, "tokens have 2 bytes or 4, not 3", "Write 2 for uint16, 4 for uint32.");
  }
  if (kind == "text") throw InputError(place, "texts are read as bytes", "Remove the key.");
  if (kind == ".safetensors")
    throw InputError(place, ".safetensors files say what they hold", "Remove the key.");
}

void parse_files(YamlMap& map, const std::vector<std::string>& files, Job& job) {
  check_one_kind(map, files);
  const std::string kind = kind_of_data(files.front());
  check_width(map, job, kind);
  if (kind == ".safetensors") {
    refuse_key(map, "sequence", "samples of .safetensors files are not cut into windows",
               "Remove the key.");
  } else if (job.sequence == 0) {
    throw InputError(map.place("sequence"), "missing",
                     fmt::format("`{}` is read as {}, which are cut into windows: add `sequence: "
                                 "128`. Tensors are in .safetensors files.",
                                 files.front(), kind == ".bin" ? "tokens" : "texts"));
  }
}

std::optional<LastBatch> parse_last_batch(YamlMap& map, Loss loss) {
  if (!map.has("last_batch")) return std::nullopt;
  const std::string text = map.text("last_batch");
  const auto found = std::ranges::find(last_batch_names, text);
  if (found == last_batch_names.end()) {
    throw InputError(map.place("last_batch"), fmt::format("there is no `{}`", text),
                     "Write wrap (it goes on with the next epoch), drop (what is left over is not "
                     "used) or pad (it is filled up with samples that do not count).");
  }
  const auto last = static_cast<LastBatch>(found - last_batch_names.begin());
  if (last != LastBatch::pad || loss == Loss::cross_entropy) return last;
  throw InputError(map.place("last_batch"),
                   fmt::format("under `loss: {}` every sample counts, also those that fill up a "
                               "batch",
                               name(loss)),
                   "Write `last_batch: drop`, or train with cross_entropy.");
}

}  // namespace

void parse_data(YamlMap& map, const std::filesystem::path& file, Job& job) {
  const bool given = map.has("data");
  const std::vector<std::string> files = given ? map.texts("data") : std::vector<std::string>{};
  if (files == std::vector<std::string>{kRandom}) return parse_random(map, job);
  job.sequence = map.integer("sequence", 1, max_samples, 0);
  job.token_bytes = map.integer("token_bytes", 2, 4, 0);
  job.shuffle = map.boolean("shuffle", false);
  job.last_batch = parse_last_batch(map, job.loss.kind);
  if (given) parse_files(map, files, job);
  for (const std::string& path : files) job.data.push_back(absolute_path(file, path));
}

void add_data_keys(nlohmann::ordered_json& keys, const Job& job,
                   const std::filesystem::path& file) {
  std::vector<std::string> data;
  for (const std::string& path : job.data) {
    const std::string relative = relative_path(file, path);
    data.push_back(relative == kRandom ? "./random" : relative);
  }
  if (job.random_data) data = {kRandom};
  if (data.size() == 1) keys["data"] = data.front();
  if (data.size() > 1) keys["data"] = data;
  if (job.sequence > 0) keys["sequence"] = job.sequence;
  if (job.token_bytes > 0) keys["token_bytes"] = job.token_bytes;
  if (job.shuffle) keys["shuffle"] = true;
  if (job.last_batch) keys["last_batch"] = last_batch_names[static_cast<size_t>(*job.last_batch)];
}

}  // namespace penstock
