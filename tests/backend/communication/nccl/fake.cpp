#include "tests/backend/communication/nccl/fake.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace penstock::test {

void MemoryStore::set(const std::string& key, const std::string& value) {
  const std::scoped_lock lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::string MemoryStore::get(const std::string& key) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return values_.contains(key); });
  return values_.at(key);
}

std::optional<std::string> MemoryStore::get_within(const std::string& key, double seconds) {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> patience(seconds);
  if (!changed_.wait_for(lock, patience, [&] { return values_.contains(key); }))
    return std::nullopt;
  return values_.at(key);
}

void MemoryStore::append(const std::string& key, const std::string& value) {
  const std::scoped_lock lock(mutex_);
  values_[key] += value;
  changed_.notify_all();
}

bool MemoryStore::has(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  return values_.contains(key);
}

FakeNccl::FakeNccl(std::shared_ptr<FakeWorld> world, bool host_computes)
    : world_(std::move(world)), host_computes_(host_computes), device_([this] { work(); }) {}

FakeNccl::~FakeNccl() {
  {
    const std::scoped_lock lock(world_->mutex);
    end_ = true;
    world_->changed.notify_all();
  }
  device_.join();
}

void FakeNccl::work() {
  std::unique_lock lock(world_->mutex);
  while (!end_) {
    if (!world_->paused && step()) {
      world_->changed.notify_all();
    } else {
      world_->changed.wait(lock);
    }
  }
}

bool FakeNccl::step() {
  bool moved = false;
  const auto advance = [&](FakeStream& stream) {
    while (!stream.queue.empty() && stream.queue.front()()) {
      stream.queue.pop_front();
      moved = true;
    }
  };
  advance(compute_);
  for (const auto& stream : streams_) advance(*stream);
  return moved;
}

int FakeNccl::running() {
  const std::scoped_lock lock(world_->mutex);
  size_t count = compute_.queue.size();
  for (const auto& stream : streams_) count += stream->queue.size();
  return static_cast<int>(count);
}

NcclApi::Status FakeNccl::outcome(const std::string& name, Status otherwise) {
  const auto found = failing.find(name);
  return found == failing.end() ? otherwise : found->second;
}

std::string FakeNccl::unique_id() {
  const std::scoped_lock lock(world_->mutex);
  return "id" + std::to_string(world_->ids++);
}

NcclApi::Status FakeNccl::init(Comm& comm, int size, int rank, const std::string& id,
                               int /*max_ctas*/) {
  const std::scoped_lock lock(world_->mutex);
  auto& group = world_->groups[id];
  if (!group) group = std::make_shared<FakeWorld::Group>();
  group->size = size;
  group->joined.insert(rank);
  comms_.push_back(std::make_unique<FakeComm>());
  *comms_.back() = {++made_, rank, 0, false, group};
  comm = comms_.back().get();
  ++live_comms;
  calls.push_back("init " + std::to_string(made_));
  world_->changed.notify_all();
  return outcome("init", Status::in_progress);
}

NcclApi::Status FakeNccl::enqueue(const char* name, Comm comm, Stream stream,
                                  const Operation& operation) {
  std::unique_lock lock(world_->mutex);
  auto* const own = static_cast<FakeComm*>(comm);
  auto* const queue = static_cast<FakeStream*>(stream);
  calls.push_back(std::string(name) + " " + std::to_string(own->number) + " on " +
                  std::to_string(queue->number));
  if (const Status given = outcome(name, Status::done); given != Status::done) return given;
  auto ended = std::make_shared<bool>(false);
  queue->queue.emplace_back([=] { return *ended = own->stopped || operation(); });
  world_->changed.notify_all();
  if (host_computes_ && queue == &compute_)
    world_->changed.wait(lock, [&] { return *ended || own->group->lost; });
  return Status::done;
}

NcclApi::Status FakeNccl::send(Comm comm, const void* data, size_t bytes, int peer, Stream stream) {
  auto* const own = static_cast<FakeComm*>(comm);
  auto taken = std::make_shared<bool>(false);
  auto posted = std::make_shared<bool>(false);
  return enqueue("send", comm, stream, [=, this] {
    if (!*posted) {
      own->group->mail[{own->rank, peer}].push_back({data, bytes, taken});
      *posted = true;
      world_->changed.notify_all();
    }
    return *taken;
  });
}

NcclApi::Status FakeNccl::receive(Comm comm, void* data, size_t bytes, int peer, Stream stream) {
  auto* const own = static_cast<FakeComm*>(comm);
  return enqueue("receive", comm, stream, [=] {
    auto& mail = own->group->mail[{peer, own->rank}];
    if (mail.empty()) return false;
    TORCH_CHECK(mail.front().bytes == bytes, "sent ", mail.front().bytes, " bytes, not ", bytes);
    std::memcpy(data, mail.front().data, bytes);
    *mail.front().taken = true;
    mail.pop_front();
    return true;
  });
}

namespace {

at::Tensor tensor_of(const NcclApi::Numbers& numbers) {
  return at::from_blob(numbers.data, {static_cast<int64_t>(numbers.count)}, numbers.type);
}

/// Adds in ascending order of the members: the same bits as between threads.
at::Tensor sum_of(const std::map<int, at::Tensor>& parts) {
  at::Tensor sum = parts.begin()->second.clone();
  for (auto part = std::next(parts.begin()); part != parts.end(); ++part) sum.add_(part->second);
  return sum;
}

/// Each member's part of its own tensor.
at::Tensor joined(const std::map<int, at::Tensor>& tensors) {
  const auto size = static_cast<int64_t>(tensors.size());
  std::vector<at::Tensor> parts;
  for (const auto& [rank, tensor] : tensors) parts.push_back(tensor.view({size, -1})[rank]);
  return at::cat(parts);
}

}  // namespace

NcclApi::Status FakeNccl::collect(const char* name, Comm comm, const at::Tensor& given,
                                  Stream stream, const Use& use) {
  auto* const own = static_cast<FakeComm*>(comm);
  return enqueue(name, comm, stream, [=, this, number = own->sums++] {
    auto& all = own->group->sums[number];
    if (all.try_emplace(own->rank, given.clone()).second) world_->changed.notify_all();
    if (static_cast<int>(all.size()) < own->group->size) return false;
    use(all);
    return true;
  });
}

NcclApi::Status FakeNccl::all_reduce(Comm comm, const Numbers& numbers, Stream stream) {
  const at::Tensor own = tensor_of(numbers);
  return collect("all_reduce", comm, own, stream,
                 [own](const auto& all) { at::Tensor(own).copy_(sum_of(all)); });
}

NcclApi::Status FakeNccl::reduce_scatter(Comm comm, const Numbers& numbers, int size, int rank,
                                         Stream stream) {
  const at::Tensor own = tensor_of(numbers);
  return collect("reduce_scatter", comm, own, stream, [=](const auto& all) {
    own.view({size, -1})[rank].copy_(sum_of(all).view({size, -1})[rank]);
  });
}

NcclApi::Status FakeNccl::all_gather(Comm comm, const Numbers& numbers, int /*size*/, int /*rank*/,
                                     Stream stream) {
  const at::Tensor own = tensor_of(numbers);
  return collect("all_gather", comm, own, stream,
                 [own](const auto& all) { at::Tensor(own).copy_(joined(all)); });
}

NcclApi::Status FakeNccl::all_to_all(Comm comm, const void* sent, void* received,
                                     size_t bytes_of_part, int size, Stream stream) {
  const size_t bytes = bytes_of_part * static_cast<size_t>(size);
  const at::Tensor to = tensor_of({received, bytes, at::kByte});
  const int rank = static_cast<FakeComm*>(comm)->rank;
  return collect("all_to_all", comm, tensor_of({const_cast<void*>(sent), bytes, at::kByte}), stream,
                 [=](const auto& all) {
                   for (const auto& [member, tensor] : all)
                     to.view({size, -1})[member].copy_(tensor.view({size, -1})[rank]);
                 });
}

NcclApi::Status FakeNccl::status(Comm comm) {
  const std::scoped_lock lock(world_->mutex);
  const auto& group = *static_cast<FakeComm*>(comm)->group;
  if (group.lost) return Status::peer_lost;
  const bool complete = static_cast<int>(group.joined.size()) == group.size;
  return outcome("status", complete ? Status::done : Status::in_progress);
}

std::string FakeNccl::last_error(Comm comm) {
  if (comm == nullptr) return "the fake's reason in none";
  return "the fake's reason in " + std::to_string(static_cast<FakeComm*>(comm)->number);
}

void FakeNccl::abort(const std::vector<Comm>& comms, double /*timeout_s*/) noexcept {
  const std::scoped_lock lock(world_->mutex);
  for (const Comm comm : comms) {
    auto* const own = static_cast<FakeComm*>(comm);
    own->stopped = own->group->lost = true;
    --live_comms;
    calls.push_back("abort " + std::to_string(own->number));
  }
  while (step()) {
  }
  world_->changed.notify_all();
}

NcclApi::Stream FakeNccl::make_stream() {
  const std::scoped_lock lock(world_->mutex);
  streams_.push_back(std::make_unique<FakeStream>());
  streams_.back()->number = static_cast<int>(streams_.size());
  ++live_streams;
  return streams_.back().get();
}

void FakeNccl::drop_stream(Stream /*stream*/) noexcept { --live_streams; }

NcclApi::Event FakeNccl::make_event() {
  ++live_events;
  return new FakeEvent;
}

void FakeNccl::drop_event(Event event) noexcept {
  --live_events;
  delete static_cast<FakeEvent*>(event);
}

void FakeNccl::record(Event event, Stream stream) {
  const std::scoped_lock lock(world_->mutex);
  auto passed = std::make_shared<bool>(host_computes_ && stream == &compute_);
  static_cast<FakeEvent*>(event)->passed = passed;
  if (*passed) return;
  static_cast<FakeStream*>(stream)->queue.emplace_back([passed] { return *passed = true; });
  world_->changed.notify_all();
}

void FakeNccl::wait(Stream stream, Event event) {
  std::unique_lock lock(world_->mutex);
  const auto passed = static_cast<FakeEvent*>(event)->passed;
  if (host_computes_ && stream == &compute_) {
    world_->changed.wait(lock, [&] { return *passed; });
  } else {
    static_cast<FakeStream*>(stream)->queue.emplace_back([passed] { return *passed; });
    world_->changed.notify_all();
  }
}

bool FakeNccl::passed(Event event) {
  const std::scoped_lock lock(world_->mutex);
  return *static_cast<FakeEvent*>(event)->passed;
}

void FakeNccl::pause(double /*waited_s*/) {
  std::unique_lock lock(world_->mutex);
  ++pauses;
  clock_s_ += pause_s;
  if (pause_s == 0) world_->changed.wait_for(lock, std::chrono::milliseconds(1));
}

}  // namespace penstock::test
