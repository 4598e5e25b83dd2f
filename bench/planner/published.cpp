#include "bench/planner/published.hpp"

namespace penstock::bench {

namespace {

struct Row {
  std::string_view sha256;
  Published published;
};

Setting pipedream(int workers, double bytes_per_s) {
  return {.objective = Objective::pipedream, .devices = workers, .bytes_per_s = bytes_per_s};
}

Setting dapple(int batch, int profile_batch) {
  return {.objective = Objective::dapple,
          .devices = 16,
          .batch = batch,
          .profile_batch = profile_batch};
}

/// All files of the paper are for the same devices.
Setting max_load() {
  return {.objective = Objective::max_load, .devices = 6, .cpus = 1, .memory_bytes = 17185374208};
}

Setting piper(int devices) {
  constexpr double gib = 1 << 30;
  return {.objective = Objective::piper,
          .devices = devices,
          .memory_bytes = 8 * gib,
          .bytes_per_s = 25 * gib,
          .batch = 1920};
}

const std::vector<Row>& rows() {
  constexpr std::string_view bert32 =
      "cc126436a4c238ec14cad466d176a178e9a9aad1e187f1d2a3cdb8b8d5ab1d1a";
  static const std::vector<Row> all = {
      // vgg16, alexnet, resnet50
      {"3e914ff5290644c6b1c871002d278e57fcc486c22ac07283480b7779f28e5b08",
       {pipedream(4, 1e9), 0.205520896}},
      {"e9a0bb73a0929b03be3a23cbcdf224c03ae39123bed685de4f1e17b65014d26b",
       {pipedream(16, 1e9), 0.018874368}},
      {"5fc27812d75d7fa39946ef32ac8089cc277b0debc78c6d8200de3cb5c62ca7d2",
       {pipedream(16, 1.25e9), 0.0438478}},
      // bert-48, vgg-19
      {"5c11bb4cf5e7bc96e8f07cf7ce05f08b55ba892f302eb4a6f46954e34e3cdafb", {dapple(64, 2), 12.337}},
      {"effeacc60da4a9017eb23051fb26a5996be27dcc584c759f88781cd67eb2934c",
       {dapple(2048, 32), 12.062}},
      // bert24, gnmt, resnet50: inference, training
      {"94263bae71fbb8d282e110dc19a0b16d5f80178fd49c875b9a0476911e89fbdb", {max_load(), 17.7899}},
      {"8edcf0e9300b16faa608a9eaf3083c6641dec751984f8ee82be8cdfe2126413c", {max_load(), 41.7458}},
      {"db56efc77d7028848c45369edd8a1a824d11bdc9291df07b4594038c59bcb062", {max_load(), 32.9107}},
      {"452964e4b25c711b2153771b47ba1251dc0b9833bfb41bbcfad5d29c0fb33819", {max_load(), 107.004}},
      {"9a287c4346e3379922ca2dc390d2f19ab6cc83934a4a7b6c0fda4cac360adeb4", {max_load(), 33.7747}},
      {"b32cf4d2c2cdeb9241d1f12177a06c569cc551b1a4511bc41a51c883edb5ed8a", {max_load(), 78.6318}},
      {bert32, {piper(8), 0.16585575}},
      {bert32, {piper(64), 0.02020055}},
      {bert32, {piper(512), 0.0025611278}},
      {bert32, {piper(2048), 0.00070359118}},
  };
  return all;
}

}  // namespace

std::vector<Published> published(std::string_view sha256) {
  std::vector<Published> result;
  for (const Row& row : rows())
    if (row.sha256 == sha256) result.push_back(row.published);
  return result;
}

std::optional<double> published(std::string_view sha256, const Setting& setting) {
  for (const Published& one : published(sha256))
    if (one.setting == setting) return one.value;
  return std::nullopt;
}

}  // namespace penstock::bench
