// Read access to a `.pt2`, a zip whose members all lie under one root folder and are stored without
// compression. Internal to graph/. Everything throws InputError naming the file and the member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct zip;

namespace penstock {

class Zip {
 public:
  /// Reads the central directory. Refuses what is not a zip, is truncated, has members outside one
  /// root folder, members twice, compressed or encrypted ones, or sizes that are together
  /// beyond the file's own.
  explicit Zip(const std::string& path);
  ~Zip();
  Zip(const Zip&) = delete;
  Zip& operator=(const Zip&) = delete;

  const std::string& path() const { return path_; }
  /// `data/weights/weight_0` with the root folder before it: a member's full name.
  std::string full(const std::string& name) const { return root_ + "/" + name; }
  /// Members by their full names; directories are left out.
  bool has(const std::string& member) const { return members_.contains(member); }
  int64_t size(const std::string& member) const;
  /// Names below the root that begin with `prefix` and end with `suffix`, ascending.
  std::vector<std::string> find(const std::string& prefix, const std::string& suffix) const;

  /// The whole member; its checksum is verified.
  std::string read(const std::string& member) const;
  /// Bytes from `offset` on, as many as `destination` takes. All of the member passes by, in
  /// pieces, for its checksum; nothing but the wanted part is held.
  void read(const std::string& member, int64_t offset, std::span<std::byte> destination) const;

 private:
  struct Member {
    uint64_t index = 0;
    int64_t size = 0;
  };
  void add(uint64_t index, int64_t file_size);
  const Member& member(const std::string& name) const;

  std::string path_, root_;
  int64_t claimed_ = 0;  // bytes of all members: parts of the file that overlap would be read twice
  std::unique_ptr<struct zip, void (*)(struct zip*)> archive_;
  std::map<std::string, Member> members_;
};

}  // namespace penstock
