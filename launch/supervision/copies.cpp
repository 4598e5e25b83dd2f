#include "launch/supervision/copies.hpp"

#include <fmt/format.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "launch/supervision/checksum.hpp"
#include "launch/supervision/rotation.hpp"
#include "launch/supervision/sockets.hpp"

namespace penstock {

namespace {

/// Closes it, once nobody uses it.
struct OwnedSocket {
  int socket;
  explicit OwnedSocket(int owned) : socket(owned) {}
  OwnedSocket(const OwnedSocket&) = delete;
  OwnedSocket& operator=(const OwnedSocket&) = delete;
  ~OwnedSocket() {
    if (socket >= 0) close(socket);
  }
};

int64_t bytes_in(const SnapshotSlot& slot) {
  struct stat status {};
  if (fstat(slot.descriptor(), &status) != 0)
    throw std::system_error(errno, std::generic_category(), "reading a snapshot");
  return status.st_size;
}

[[noreturn]] void connection_ended() { throw std::runtime_error("the connection ended"); }

constexpr const char *kSend = "send", *kHere = "here";  // words of the receiver; or a problem

std::string read_word(int socket) {
  std::string word;
  for (char next = 0;; word += next) {
    const ssize_t got = recv(socket, &next, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) connection_ended();
    if (next == '\n') return nlohmann::json::parse(word).get<std::string>();
  }
}

void send_all(int socket, const SnapshotSlot& slot, int64_t bytes) {
  for (off_t at = 0; at < bytes;) {
    const ssize_t sent = sendfile(socket, slot.descriptor(), &at, static_cast<size_t>(bytes - at));
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) connection_ended();
  }
}

/// Returns the checksum.
uint64_t receive_all(int socket, std::span<std::byte> rest) {
  constexpr size_t kPiece = 1 << 18;
  Checksum found;
  while (!rest.empty()) {
    const ssize_t got = recv(socket, rest.data(), std::min(rest.size(), kPiece), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) connection_ended();
    found.add(rest.first(static_cast<size_t>(got)));
    rest = rest.subspan(static_cast<size_t>(got));
  }
  return found.value();
}

}  // namespace

void send_copy(const FleetAddress& to, const CopyOf& what, const SnapshotSlot& slot,
               const std::stop_token& stop) {
  const OwnedSocket owned(connect_to(to.host, to.port));
  if (owned.socket < 0) throw std::runtime_error(std::generic_category().message(errno));
  const std::stop_callback on_stop(stop, [&] { shutdown(owned.socket, SHUT_RDWR); });
  probe(owned.socket);
  const int64_t bytes = bytes_in(slot);
  send_line(owned.socket, {{"token", to.token},
                           {"rank", what.rank},
                           {"step", what.next_step},
                           {"checksum", what.checksum},
                           {"bytes", bytes}});
  const std::string word = read_word(owned.socket);
  if (word == kHere) return;
  if (word != kSend) throw std::runtime_error(word);
  send_all(owned.socket, slot, bytes);
  if (const std::string end = read_word(owned.socket); end != kHere) throw std::runtime_error(end);
}

Copies::~Copies() {
  {
    const std::lock_guard lock(mutex_);
    for (const Receiver& receiver : receivers_)
      if (!receiver.done) shutdown(receiver.socket, SHUT_RDWR);
  }
  receivers_.clear();  // joins
}

void Copies::receive(int socket, const nlohmann::json& greeting) {
  const std::lock_guard lock(mutex_);
  std::erase_if(receivers_, [](const Receiver& receiver) { return receiver.done; });
  Receiver& receiver = receivers_.emplace_back();
  receiver.socket = socket;
  receiver.thread = std::jthread([this, &receiver, greeting] { serve(receiver, greeting); });
}

void Copies::serve(Receiver& receiver, const nlohmann::json& greeting) {
  try {
    take_in(receiver.socket, {greeting.at("rank"), greeting.at("step"), greeting.at("checksum")},
            greeting.at("bytes"));
    send_line(receiver.socket, kHere);
  } catch (const std::exception& error) {
    send_line(receiver.socket, error.what());
  }
  const std::lock_guard lock(mutex_);
  close(receiver.socket);
  receiver.done = true;
}

void Copies::set_step(Held& held, size_t slot, int64_t next_step) {
  const std::lock_guard lock(mutex_);
  held.steps[slot] = next_step;
}

/// In place of the oldest: the sender is past the step before it.
void Copies::take_in(int socket, const CopyOf& what, int64_t bytes) {
  Held* held = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto [found, added] = held_.try_emplace(what.rank);
    held = &found->second;
    if (added) held->steps.fill(-1);
  }
  const std::lock_guard one_at_a_time(held->receiving);
  size_t slot = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto same = slot_with(held->steps, what.next_step);
    if (same && held->copies[*same].checksum == what.checksum) return;
    slot = same ? *same : slot_for_next({held->steps, {}}).value();
    held->steps[slot] = -1;
  }
  Copy& copy = held->copies[slot];
  MappedSlot memory(copy.slot.descriptor());
  const std::span<std::byte> all = memory.resize(bytes);
  send_line(socket, kSend);
  copy.checksum = receive_all(socket, all);
  if (copy.checksum != what.checksum)
    throw std::runtime_error(fmt::format("rank {}'s snapshot arrived damaged", what.rank));
  set_step(*held, slot, what.next_step);
}

std::map<int, SlotSteps> Copies::steps() const {
  const std::lock_guard lock(mutex_);
  std::map<int, SlotSteps> found;
  for (const auto& [rank, held] : held_) found[rank] = held.steps;
  return found;
}

/// With the lock.
std::optional<size_t> Copies::slot_of(int rank, int64_t next_step) const {
  const auto held = held_.find(rank);
  return held == held_.end() ? std::nullopt : slot_with(held->second.steps, next_step);
}

const Copies::Copy* Copies::find(int rank, int64_t next_step) const {
  const std::lock_guard lock(mutex_);
  const auto slot = slot_of(rank, next_step);
  return slot ? &held_.at(rank).copies[*slot] : nullptr;
}

std::optional<Copies::Copy> Copies::take(int rank, int64_t next_step) {
  const std::lock_guard lock(mutex_);
  const auto slot = slot_of(rank, next_step);
  if (!slot) return std::nullopt;
  Held& held = held_.at(rank);
  held.steps[*slot] = -1;
  Copy& copy = held.copies[*slot];
  return Copy{std::exchange(copy.slot, SnapshotSlot()), copy.checksum};
}

void Copies::forget(int rank, int64_t next_step) {
  const std::lock_guard lock(mutex_);
  if (const auto slot = slot_of(rank, next_step)) held_.at(rank).steps[*slot] = -1;
}

void Copies::keep_only(const std::set<int>& ranks) {
  const std::lock_guard lock(mutex_);
  for (auto& [rank, held] : held_) {
    const std::unique_lock none_arrives(held.receiving, std::try_to_lock);
    if (ranks.contains(rank) || !none_arrives) continue;
    held.steps.fill(-1);
    held.copies = {};
  }
}

void Copies::forget_after(int64_t next_step) {
  const std::lock_guard lock(mutex_);
  for (auto& [rank, held] : held_) {
    std::ranges::replace_if(
        held.steps, [&](int64_t step) { return step > next_step; }, -1);
  }
}

}  // namespace penstock
