// Files that are written piece by piece, folders that are filled file by file, neither ever seen
// half-done; both outlast a crash of the machine once they are seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// `commit` replaces the file at `path`, all at once; a symbolic link stays and its target is
/// replaced. A pipe, a terminal, /dev/null or standard output cannot be replaced and is written to.
/// Every member throws InputError with the system's reason; without `commit` nothing is left
/// behind.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes);
  /// The next write goes to that byte of the file. Throws for a pipe.
  void seek(int64_t offset);
  /// Content and name are on the disk when it returns, in this order.
  void commit();

 private:
  void close();

  std::filesystem::path path_, target_;
  std::string unfinished_;  // "" for what is written to directly
  int descriptor_ = -1;
};

/// Throws InputError with the reason of a system call that failed, from its errno.
[[noreturn]] void cannot_write(const std::filesystem::path& path, int error);

/// The file that writing to `path` replaces: the end of its symbolic links, which need not exist;
/// `path` itself where that is no regular file. Throws InputError for links in a circle.
std::filesystem::path written_path(const std::filesystem::path& path);

/// It names this process's standard output: `/dev/stdout`, or the file that it is redirected to.
bool is_standard_output(const std::filesystem::path& path);

/// Throws what an OutputFile of that path would, and leaves nothing behind.
void check_writable(const std::filesystem::path& path);
/// The same for files in `folder`, which need not exist where it can be made.
void check_writable_folder(const std::filesystem::path& folder);

/// Makes the folder and those above it, synced. Throws InputError with the system's reason.
void make_folder(const std::filesystem::path& folder);

/// Renames the folder `from` to `to`, synced; a folder that was there is removed. `to` is the old
/// one or the new one, whole, at any moment; where the file system cannot exchange two names it is
/// missing for one. Throws InputError with the system's reason.
void put_in_place(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace penstock
