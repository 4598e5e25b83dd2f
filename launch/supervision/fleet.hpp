// The supervisors of a run, one for each process that a launcher has started: TCP connections from
// each to the one that leads, first that of process 0, and lines of JSON over them. All of them
// listen: any may send another a copy of a snapshot, over a connection of its own (copies.hpp).
//
// A supervisor that ends closes its connection; one whose node or network fails is lost after at
// most 10 s, by the system's own probes, so that one that is only stopped is not.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

namespace penstock {

/// A supervisor listens there. `token`: others than supervisors of its run do not know it.
struct FleetAddress {
  std::string host;
  int port = 0;
  std::string token;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FleetAddress, host, port, token)

class Fleet {
 public:
  using Message = nlohmann::json;
  using OnMessage = std::function<void(int process, const Message& message)>;
  using OnLoss = std::function<void(int process)>;
  /// It owns the socket, from which nothing but the greeting has been read.
  using OnGuest = std::function<void(int socket, const Message& greeting)>;

  /// Listens on all interfaces. Throws std::system_error.
  explicit Fleet(int process);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  bool leads() const { return process_ == leader_; }
  int leader() const { return leader_; }
  /// In place of one that is lost.
  void lead() { leader_ = process_; }
  /// Its own; it does not know by which host the others reach it.
  const FleetAddress& address() const { return address_; }
  /// By process, its own included: the leader knows those that have joined, the others the leader
  /// and whom they have learnt of.
  const std::map<int, FleetAddress>& addresses() const { return addresses_; }
  void learn(int process, const FleetAddress& address) { addresses_[process] = address; }
  /// Connects to that process, which is to lead. Throws std::runtime_error where it does not answer
  /// within 10 s.
  void join(const FleetAddress& leader, int process = 0);
  /// It has connected to the leader, which may be lost since.
  bool has_joined() const { return has_joined_; }

  /// There is something to read when `receive` has something to do.
  int descriptor() const { return poll_; }
  /// Takes in what has come, in the order in which each supervisor sent it, without waiting. Tells
  /// the loss of each once, after its last message. A guest knows the token, but names no process.
  void receive(const OnMessage& on_message, const OnLoss& on_loss, const OnGuest& on_guest);
  /// To one, or to all that this one is connected to, from any thread. What cannot be sent is lost
  /// with its receiver.
  void send(int process, const Message& message);
  void send(const Message& message);

 private:
  struct Link {
    int process = -1;    // -1: it has not said
    std::string unread;  // an unfinished line
  };
  void accept();
  void add(int socket, int process);
  void read(int socket, const OnMessage& on_message, const OnLoss& on_loss,
            const OnGuest& on_guest);
  bool knows(const Message& greeting) const;
  void greet(int socket, Link& link, const Message& greeting);
  void hand_over(int socket, const Message& greeting, const OnGuest& on_guest);
  void remove(int socket, const OnLoss& on_loss);

  const int process_;
  int leader_ = 0;
  FleetAddress address_;
  std::map<int, FleetAddress> addresses_;
  int poll_ = -1, listener_ = -1;
  bool has_joined_ = false;
  std::mutex mutex_;           // of the map of links, which only one thread changes
  std::map<int, Link> links_;  // by socket
};

}  // namespace penstock
