#include "backend/communication/nccl/lane.hpp"

#include <fmt/format.h>

#include <utility>

#include "backend/communication/communicator.hpp"

namespace penstock {

EventPool::~EventPool() {
  for (const NcclApi::Event event : free_) api_.drop_event(event);
}

EventPool::Event EventPool::record(NcclApi::Stream stream) {
  if (free_.empty()) free_.push_back(api_.make_event());
  NcclApi::Event event = free_.back();
  free_.pop_back();
  Event owned(event, [this](NcclApi::Event done) { free_.push_back(done); });
  api_.record(event, stream);
  return owned;
}

Lane::Lane(NcclApi& api, std::string name, int peer, bool computes)
    : api_(api), name_(std::move(name)), peer_(peer), computes_(computes) {}

Lane::~Lane() {
  if (comm_ != nullptr) api_.abort({comm_}, 0);
  if (stream_ != nullptr) api_.drop_stream(stream_);
}

void Lane::connect(SharedStore& store, int size, int self, int max_ctas, double deadline_s) {
  const std::string key = "comm/" + name_;
  std::string id;
  if (self == 0) {
    id = api_.unique_id();
    store.set(key, id);
  } else {
    id = store.get(key);
  }
  if (!computes_) stream_ = api_.make_stream();
  settle(api_.init(comm_, size, self, id, max_ctas), "connecting", deadline_s);
}

void Lane::check(const char* what) {
  const NcclApi::Status status = api_.status(comm_);
  if (status == NcclApi::Status::peer_lost || status == NcclApi::Status::failed) {
    fail(status, what);
  }
}

void Lane::wait_for_compute(EventPool& events) {
  const EventPool::Event ready = events.record(api_.compute_stream());
  api_.wait(stream_, ready.get());
}

/// A call of a non-blocking communicator may still be in progress when it returns.
void Lane::settle(NcclApi::Status status, const char* what, double deadline_s) {
  const double start_s = api_.now_s();
  while (status == NcclApi::Status::in_progress) {
    const double waited_s = api_.now_s() - start_s;
    if (waited_s > deadline_s) {
      throw PeerError(peer_,
                      fmt::format("lane {}: {} took more than {:.0f} s{}", name_, what, deadline_s,
                                  peer_ < 0 ? "" : fmt::format("; rank {} did not come", peer_)));
    }
    api_.pause(waited_s);
    status = api_.status(comm_);
  }
  if (status != NcclApi::Status::done) fail(status, what);
}

void Lane::fail(NcclApi::Status status, const char* what) {
  const std::string said = api_.last_error(comm_);
  const std::string text = fmt::format("lane {}: {} failed: {}", name_, what,
                                       said.empty() ? "NCCL does not say why" : said);
  if (status == NcclApi::Status::failed) throw std::runtime_error(text);
  throw PeerError(peer_, peer_ < 0 ? text : fmt::format("lost rank {}: {}", peer_, text));
}

}  // namespace penstock
