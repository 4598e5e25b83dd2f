// Random samples for any model.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "backend/data/safetensors.hpp"
#include "graph/pt2/pt2.hpp"
#include "pipeline/job/dataset.hpp"
#include "tests/backend/support.hpp"

namespace penstock::test {

/// 24 random samples of whatever the model and the loss take.
inline std::string random_data(const TemporaryFolder& folder, const std::string& model, Loss loss) {
  Job job;
  job.loss = loss;
  NamedTensors tensors;
  at::manual_seed(5);
  for (const ExpectedSample& sample : expected_samples(job, read_pt2(model))) {
    std::vector<int64_t> shape{24};
    shape.insert(shape.end(), sample.shape.begin(), sample.shape.end());
    tensors.emplace_back(sample.name, sample.limit ? at::randint(*sample.limit, shape, at::kLong)
                                                   : at::randn(shape, at::kDouble));
  }
  write_tensors(folder / "data.safetensors", tensors);
  return folder / "data.safetensors";
}

}  // namespace penstock::test
