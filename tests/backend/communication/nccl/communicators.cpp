#include "tests/backend/communication/nccl/communicators.hpp"

#include "tests/backend/communication/forwarding.hpp"
#include "tests/backend/communication/nccl/ranks.hpp"

namespace penstock::test {

namespace {

/// Leaves when all do: a rank that is gone is an error to the others.
class LeavingTogether : public Forwarding {
 public:
  LeavingTogether(std::shared_ptr<FakeRanks> ranks, std::unique_ptr<Communicator> own)
      : ranks_(std::move(ranks)), own_(std::move(own)) {}
  ~LeavingTogether() override { ranks_->meet(); }

 private:
  Communicator& inner() const override { return *own_; }
  std::shared_ptr<FakeRanks> ranks_;
  std::unique_ptr<Communicator> own_;
};

}  // namespace

Communicators make_fake_nccl(int size) {
  std::vector<LaneKey> lanes;
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      if (from != to) lanes.insert(lanes.end(), {{from, to, false}, {from, to, true}});
    }
  }
  auto ranks = std::make_shared<FakeRanks>(size, lanes);
  Communicators communicators(size);
  ranks->run_lossy([&](const FakeRanks::Connect& connect, FakeNccl&, int rank) {
    communicators[rank] = std::make_unique<LeavingTogether>(ranks, connect());
  });
  return communicators;
}

}  // namespace penstock::test
