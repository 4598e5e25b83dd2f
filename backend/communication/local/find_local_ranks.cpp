// How the ranks of a machine find each other. Each listens on a socket of the machine under a name
// that nobody else knows and tells it in the store, with what identifies the machine. Then, for
// each pair:
//   the higher rank connects                    hello: its number, the address of a word
//   the lower rank reads that word and answers  welcome: whether it could, its own word's address,
//                                               and the memory that they share
//   the higher rank reads that word and answers whether it could
// Where all ranks of a machine could, they are peers.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "backend/communication/communicator.hpp"
#include "backend/communication/local/peers.hpp"

namespace penstock {

namespace {

constexpr int kAnswer_ms = 60000;  // for a rank that has told its name to connect and answer
constexpr uint64_t kWord = 0x70656e73746f636b;
const uint64_t word_to_read = kWord;

struct Hello {
  int rank = 0;
  uint64_t word = 0;  // its address
};
struct Welcome {
  uint64_t word = 0;
  bool reads = false;  // this rank could read the other's word
};

std::string first_line_of(const char* path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

/// Equal for processes that may share memory, empty where that is not known.
std::string machine_identity() {
  const std::string kernel = first_line_of("/proc/sys/kernel/random/boot_id");
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  if (kernel.empty() || error) return "";
  return kernel + " " + network.string() + " " + std::to_string(getuid());
}

std::string random_name() {
  uint64_t parts[2] = {};
  if (getrandom(parts, sizeof parts, 0) != sizeof parts) return "";
  char name[64];
  snprintf(name, sizeof name, "penstock-%016lx%016lx", parts[0], parts[1]);
  return name;
}

/// A name of no file, which ends with its socket.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

Descriptor make_socket() { return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

/// A place that other ranks of this machine can connect to; `name` is empty where there is none.
struct Listener {
  Descriptor socket;
  std::string name;
};

Listener listen_for_peers(int backlog) {
  Listener listener{make_socket(), random_name()};
  const auto [address, size] = address_of(listener.name);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  const bool listens = !listener.name.empty() && bind(listener.socket.get(), where, size) == 0 &&
                       listen(listener.socket.get(), backlog) == 0;
  if (!listens) listener.name.clear();
  return listener;
}

/// What every rank says, by rank; the same on all ranks.
nlohmann::json exchange(const Seat& seat, const std::string& key, const nlohmann::json& own) {
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& text : gather(seat, key, own.dump())) {
    all.push_back(nlohmann::json::parse(text));
  }
  if (seat.rank == 0) seat.store.set(key, all.dump());
  return nlohmann::json::parse(seat.store.get(key));
}

std::set<int> own_cores() {
  cpu_set_t set;
  std::set<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.insert(core);
  }
  return cores;
}

[[noreturn]] void no_answer(int rank) {
  throw PeerError(
      rank, rank < 0 ? "a rank of this machine did not connect"
                     : "lost rank " + std::to_string(rank) + ": it did not answer on this machine");
}

void await_words(int socket, int rank) {
  pollfd wait{socket, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&wait, 1, kAnswer_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) no_answer(rank);
}

/// Sends a message, with a descriptor if that is not negative.
template <typename Message>
void say(int socket, const Message& message, int descriptor = -1) {
  iovec part{const_cast<Message*>(&message), sizeof message};  // sendmsg only reads it
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const entry = CMSG_FIRSTHDR(&header);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(entry), &descriptor, sizeof descriptor);
  }
  sendmsg(socket, &header, MSG_NOSIGNAL);  // a peer that is gone is noticed where it is waited for
}

/// Receives a message of rank `rank`, and the descriptor that came with it.
template <typename Message>
Descriptor hear_message(int socket, int rank, Message& message) {
  await_words(socket, rank);
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != sizeof message) no_answer(rank);
  int descriptor = -1;
  if (const cmsghdr* const entry = CMSG_FIRSTHDR(&header)) {
    std::memcpy(&descriptor, CMSG_DATA(entry), sizeof descriptor);
  }
  return Descriptor(descriptor);
}

/// The process at the other end, as this one numbers processes; 0 where it cannot see it.
pid_t process_behind(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size);
  return credentials.pid;
}

bool can_read(pid_t process, uint64_t address) {
  uint64_t word = 0;
  const iovec here{&word, sizeof word};
  const iovec there{reinterpret_cast<void*>(address), sizeof word};
  return process > 0 && process_vm_readv(process, &here, 1, &there, 1, 0) == sizeof word &&
         word == kWord;
}

SharedPage* map_page(const Descriptor& memory) {
  void* const page =
      mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  return page == MAP_FAILED ? nullptr : static_cast<SharedPage*>(page);
}

Descriptor make_page() {
  Descriptor memory(memfd_create("penstock", MFD_CLOEXEC));
  if (ftruncate(memory.get(), sizeof(SharedPage)) != 0) return Descriptor();
  return memory;
}

/// One rank's part. No step waits for a later one of another rank, so none waits for ever.
class Introduction {
 public:
  explicit Introduction(const Seat& seat)
      : seat_(seat),
        listener_(listen_for_peers(seat.size)),
        ranks_(exchange(
            seat, "local/ranks",
            {{"machine", machine_identity()}, {"name", listener_.name}, {"cores", own_cores()}})) {
    for (int rank = 0; rank < seat.size; ++rank) {
      if (rank != seat.rank && on_one_machine(of(rank), of(seat.rank))) met_[rank];
    }
  }

  LocalRanks run() {
    for (auto& [rank, other] : met_) {
      if (rank < seat_.rank) connect_to(rank, other);
    }
    const auto higher = std::distance(met_.upper_bound(seat_.rank), met_.end());
    for (auto i = higher; i > 0; --i) welcome_next();
    for (auto& [rank, other] : met_) {
      if (rank < seat_.rank) answer(rank, other);
    }
    for (auto& [rank, other] : met_) {
      if (rank > seat_.rank) hear_message(other.socket.get(), rank, other.both);
    }
    return {peers(), share_cores()};
  }

 private:
  struct Other {
    Descriptor socket;
    pid_t process = 0;
    SharedPage* page = nullptr;
    bool both = false;  // each can read the other's memory
  };

  const nlohmann::json& of(int rank) const { return ranks_[static_cast<size_t>(rank)]; }

  static bool on_one_machine(const nlohmann::json& one, const nlohmann::json& other) {
    return one.at("machine") == other.at("machine") && one.at("machine") != "" &&
           one.at("name") != "" && other.at("name") != "";
  }

  void connect_to(int rank, Other& other) const {
    other.socket = make_socket();
    const auto [address, size] = address_of(of(rank).at("name"));
    if (connect(other.socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
      no_answer(rank);
    }
    other.process = process_behind(other.socket.get());
    say(other.socket.get(), Hello{seat_.rank, address_of_word()});
  }

  void welcome_next() {
    await_words(listener_.socket.get(), -1);
    Descriptor socket(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello;
    hear_message(socket.get(), -1, hello);
    Other& other = met_.at(hello.rank);
    other.process = process_behind(socket.get());
    const Descriptor memory = make_page();
    other.page = map_page(memory);
    const bool reads = other.page != nullptr && can_read(other.process, hello.word);
    say(socket.get(), Welcome{address_of_word(), reads}, memory.get());
    other.socket = std::move(socket);
  }

  static void answer(int rank, Other& other) {
    Welcome welcome;
    const Descriptor memory = hear_message(other.socket.get(), rank, welcome);
    other.page = map_page(memory);
    other.both = welcome.reads && other.page != nullptr && can_read(other.process, welcome.word);
    say(other.socket.get(), other.both);
  }

  std::map<int, std::unique_ptr<LocalPeer>> peers() {
    std::map<int, std::unique_ptr<LocalPeer>> peers;
    bool all = true;
    for (auto& [rank, other] : met_) {
      all = all && other.both;
      if (other.page == nullptr) continue;
      peers[rank] = std::make_unique<LocalPeer>(rank, seat_.rank < rank ? 0 : 1, other.process,
                                                std::move(other.socket), other.page);
    }
    const nlohmann::json of_all = exchange(seat_, "local/all", all);
    for (const auto& [rank, other] : met_) all = all && of_all[static_cast<size_t>(rank)];
    if (!all) peers.clear();
    return peers;
  }

  bool share_cores() const {
    const std::set<int> own = own_cores();
    size_t ranks = 1;
    for (const auto& [rank, other] : met_) {
      const auto theirs = of(rank).at("cores").get<std::set<int>>();
      if (std::ranges::any_of(theirs, [&](int core) { return own.contains(core); })) ++ranks;
    }
    return ranks > own.size();
  }

  static uint64_t address_of_word() { return reinterpret_cast<uint64_t>(&word_to_read); }

  const Seat seat_;
  const Listener listener_;
  const nlohmann::json ranks_;
  std::map<int, Other> met_;  // those of the machine
};

}  // namespace

LocalRanks find_local_ranks(const Seat& seat) {
  // Yama, a security module, lets a process read only its children's memory unless they allow it.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  return Introduction(seat).run();
}

}  // namespace penstock
