// How the ranks of a machine find each other. Each listens on a socket of the machine under a name
// that it tells in the store, with the machine's identity. Then, for each pair:
//   the higher rank connects                    hello: its number, the address of a word
//   the lower rank reads that word and answers  welcome: whether it could, its own word's address,
//                                               and the memory that they share
//   the higher rank reads that word and answers whether it could
// They are peers if all ranks of the machine could.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "backend/communication/communicator.hpp"
#include "backend/communication/local/peers.hpp"
#include "launch/own_cores.hpp"

namespace penstock {

namespace {

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

/// Equal for processes that may share memory, empty where that is not known.
std::string machine_identity() {
  std::string kernel;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> kernel;
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  if (kernel.empty() || error) return "";
  return kernel + " " + network.string() + " " + std::to_string(getuid());
}

/// The values of all ranks, by rank; every rank gets the same.
nlohmann::json exchange(const Seat& seat, const std::string& key, const nlohmann::json& own) {
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& text : gather(seat, key, own.dump())) {
    all.push_back(nlohmann::json::parse(text));
  }
  if (seat.rank == 0) seat.store.set(key, all.dump());
  return nlohmann::json::parse(seat.store.get(key));
}

[[noreturn]] void no_answer(int rank) {
  throw PeerError(
      rank, rank < 0 ? "a rank of this machine did not connect"
                     : "lost rank " + std::to_string(rank) + ": it did not answer on this machine");
}

/// Receives a message of rank `rank`, and the descriptor that came with it.
template <typename Message>
Descriptor receive_from(const Descriptor& socket, int rank, Message& message) {
  Descriptor descriptor;
  if (!receive_message(socket, &message, sizeof message, descriptor)) no_answer(rank);
  return descriptor;
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
  if (ftruncate(memory.get(), sizeof(SharedPage)) != 0) return {};
  return memory;
}

/// One rank's part. No step waits for a later one of another rank, so none waits for ever.
class Introduction {
 public:
  explicit Introduction(const Seat& seat)
      : seat_(seat),
        listener_(listen_under_random_name(seat.size)),
        ranks_(exchange(
            seat, "local/ranks",
            {{"machine", machine_identity()}, {"name", listener_.name}, {"cores", own_cores()}})) {
    for (int rank = 0; rank < seat.size; ++rank) {
      if (rank != seat.rank && on_one_machine(of(rank), of(seat.rank))) met_[rank];
    }
  }

  LocalRanks run() {
    for (auto& [rank, other] : met_) {
      if (rank < seat_.rank) greet(rank, other);
    }
    const auto higher = std::distance(met_.upper_bound(seat_.rank), met_.end());
    for (auto i = higher; i > 0; --i) welcome_next();
    for (auto& [rank, other] : met_) {
      if (rank < seat_.rank) answer(rank, other);
    }
    for (auto& [rank, other] : met_) {
      if (rank > seat_.rank) receive_from(other.socket, rank, other.both);
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

  void greet(int rank, Other& other) const {
    other.socket = connect_to(of(rank).at("name").get<std::string>());
    if (other.socket.get() < 0) no_answer(rank);
    other.process = process_behind(other.socket);
    const Hello hello{seat_.rank, address_of_word()};
    send_message(other.socket, &hello, sizeof hello);
  }

  void welcome_next() {
    Descriptor socket = accept_next(listener_);
    if (socket.get() < 0) no_answer(-1);
    Hello hello;
    receive_from(socket, -1, hello);
    Other& other = met_.at(hello.rank);
    other.process = process_behind(socket);
    const Descriptor memory = make_page();
    other.page = map_page(memory);
    const bool reads = other.page != nullptr && can_read(other.process, hello.word);
    const Welcome welcome{address_of_word(), reads};
    send_message(socket, &welcome, sizeof welcome, memory.get());
    other.socket = std::move(socket);
  }

  static void answer(int rank, Other& other) {
    Welcome welcome;
    const Descriptor memory = receive_from(other.socket, rank, welcome);
    other.page = map_page(memory);
    other.both = welcome.reads && other.page != nullptr && can_read(other.process, welcome.word);
    send_message(other.socket, &other.both, sizeof other.both);
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
  // Under Yama, a security module, a process reads the memory of its children alone, and of those
  // that allow it.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  return Introduction(seat).run();
}

}  // namespace penstock
