#include "cli/serve/feed.hpp"

#include <set>

#include "cli/workers/launch.hpp"
#include "pipeline/job/dataset.hpp"
#include "pipeline/plan/samples_read.hpp"

namespace penstock::cli {

namespace {

std::vector<int64_t> shape_of(const ExpectedSample& sample, int64_t samples) {
  std::vector<int64_t> shape{samples};
  shape.insert(shape.end(), sample.shape.begin(), sample.shape.end());
  return shape;
}

/// All but those that no loss, or no rank that the script feeds, reads.
std::set<std::string> names_read(const CheckedRun& checked, int rank) {
  const Analysis analysis = analyse(checked.graph);
  const auto read = [&](int one) {
    return samples_read(checked.plan, checked.graph, analysis, checked.slicing, checked.program,
                        one);
  };
  if (rank >= 0) return read(checked.plan.place_of(rank).rank);
  std::set<std::string> names;
  for (int one = 0; one < checked.plan.ranks(); ++one) names.merge(read(one));
  return names;
}

}  // namespace

SharedBatch batch_of(const CheckedRun& checked, int rank, int descriptor) {
  const Plan& plan = checked.plan;
  const int64_t of_replica = plan.microbatches * plan.microbatch;
  SharedBatch batch{.descriptor = descriptor, .samples = plan.job.global_batch};
  if (rank >= 0) {
    batch.first = plan.place_of(rank).replica * of_replica;
    batch.samples = of_replica;
    batch.complete = plan.all_ranks() == 1;
  }
  const std::set<std::string> names = names_read(checked, rank);
  SharedLayout layout;
  for (const ExpectedSample& sample : expected_samples(plan.job, checked.graph)) {
    if (!names.contains(sample.name)) continue;
    const int64_t bytes = batch.samples * SampleType{sample.dtype, sample.shape}.bytes();
    batch.tensors.push_back({sample.name, std::string(name(sample.dtype)),
                             shape_of(sample, batch.samples), layout.add(bytes)});
  }
  batch.bytes = layout.bytes();
  return batch;
}

int rank_of_script(const Plan& plan, const std::optional<Launcher>& launcher) {
  if (!launcher) return -1;
  const std::vector<int> ranks = rank_of_process(plan);
  check_size(*launcher, static_cast<int>(ranks.size()));
  return ranks[static_cast<size_t>(launcher->rank)];
}

nlohmann::json description(const CheckedRun& checked, const SharedBatch& batch) {
  const auto or_null = [](const std::optional<int64_t>& number) {
    return number ? nlohmann::json(*number) : nlohmann::json();
  };
  const size_t inputs = checked.graph.inputs.size();
  nlohmann::json samples = nlohmann::json::array();
  for (const ExpectedSample& sample : expected_samples(checked.plan.job, checked.graph)) {
    std::optional<int64_t> offset;
    for (const SharedTensor& tensor : batch.tensors) {
      if (tensor.name == sample.name) offset = tensor.offset;
    }
    samples.push_back({{"name", sample.name},
                       {"dtype", name(sample.dtype)},
                       {"shape", shape_of(sample, batch.samples)},
                       {"is_target", samples.size() == inputs},
                       {"offset", or_null(offset)},
                       {"limit", or_null(sample.limit)},
                       {"ignored", or_null(sample.ignored)}});
  }
  return samples;
}

}  // namespace penstock::cli
