// Unix sockets with abstract names: messages and descriptors between processes of one machine. A
// socket ends with its process, which the other end notices however the process ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace penstock {

/// A file descriptor that is closed at the end.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  /// -1: none.
  int get() const { return number_; }

 private:
  int number_ = -1;
};

/// A socket that others can connect to under a name that nobody can guess; empty where the system
/// allows none.
struct Listener {
  Descriptor socket;
  std::string name;
};
Listener listen_under_random_name(int backlog);

/// None where nobody listens under that name.
Descriptor connect_to(const std::string& name);
/// The next that connects; none where nobody does within a minute.
Descriptor accept_next(const Listener& listener);

/// Sends a message as a whole, with a descriptor if that is not negative. A peer that is gone is
/// noticed where its answer is waited for.
void send_message(const Descriptor& socket, const void* message, size_t bytes, int descriptor = -1);
/// Receives a message of exactly so many bytes, and the descriptor that came with it, if any; false
/// where none comes within a minute.
bool receive_message(const Descriptor& socket, void* message, size_t bytes, Descriptor& descriptor);

/// The process at the other end, as this one numbers processes; 0 where it cannot see it.
pid_t process_behind(const Descriptor& socket);

}  // namespace penstock
