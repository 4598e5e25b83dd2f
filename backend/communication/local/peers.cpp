#include "backend/communication/local/peers.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <stdexcept>
#include <string>

#include "backend/communication/communicator.hpp"

namespace penstock {

LocalPeer::~LocalPeer() { munmap(page_, sizeof(SharedPage)); }

uint64_t LocalPeer::offer(const Offer& offer) {
  without_place_.push_back(offer);
  const uint64_t number = offered_ + without_place_.size() - 1;
  catch_up();
  return number;
}

bool LocalPeer::catch_up() {
  bool made = false;
  while (!without_place_.empty() && own().offer(offered_, without_place_.front())) {
    without_place_.pop_front();
    ++offered_;
    made = true;
  }
  if (made) call();
  return without_place_.empty();
}

std::optional<uint64_t> LocalPeer::find(int64_t tag, int64_t bytes) {
  while (const auto next = others().look(seen_)) by_tag_.emplace(next->tag, seen_++);
  const auto found = by_tag_.find(tag);
  if (found == by_tag_.end()) return std::nullopt;
  const int64_t offered = others().look(found->second)->bytes;
  if (offered == bytes) return found->second;
  throw std::logic_error("rank " + std::to_string(rank_) + " sent " + std::to_string(offered) +
                         " bytes, expected " + std::to_string(bytes));
}

void LocalPeer::read(uint64_t number, int64_t from, void* to, int64_t bytes) const {
  const Offer offer = *others().look(number);
  while (bytes > 0) {
    const iovec here{to, static_cast<size_t>(bytes)};
    const iovec there{reinterpret_cast<void*>(offer.address + static_cast<uint64_t>(from)),
                      static_cast<size_t>(bytes)};
    const ssize_t count = process_vm_readv(process_, &here, 1, &there, 1, 0);
    if (count <= 0) {
      throw PeerError(rank_, "lost rank " + std::to_string(rank_) + ": its memory is gone");
    }
    to = static_cast<char*>(to) + count;
    from += count;
    bytes -= count;
  }
}

void LocalPeer::take(uint64_t number) {
  by_tag_.erase(others().look(number)->tag);
  others().take(number);
  call();
}

/// Wakes the peer if it sleeps. What it sleeps for is in the page by now, and it looks there once
/// more after it said that it sleeps: one of the two sees what the other wrote.
void LocalPeer::call() {
  if (page_->sleeping[static_cast<size_t>(1 - side_)].exchange(0) == 0) return;
  const char word = 0;
  send(socket(), &word, sizeof word, MSG_DONTWAIT | MSG_NOSIGNAL);  // if it is gone, nobody sleeps
}

void LocalPeer::hear() {
  char words[64];
  ssize_t count = 0;
  do {
    count = recv(socket(), words, sizeof words, MSG_DONTWAIT);
  } while (count > 0);
  gone_ = count == 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace penstock
