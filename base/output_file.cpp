#include "base/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int max_links = 40;  // as Linux follows them

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// `target`: where `path` leads.
[[noreturn]] void cannot_write_to(const fs::path& path, int error, const fs::path& target) {
  std::error_code unknown;
  const fs::path folder = folder_of(target);
  if ((error == ENOENT || error == ENOTDIR) && !fs::is_directory(folder, unknown)) {
    throw InputError(path.string(),
                     fmt::format("cannot be written: {} is not a folder", folder.string()),
                     "Make it, or write elsewhere.");
  }
  const bool full = error == ENOSPC || error == EDQUOT;
  throw InputError(path.string(), fmt::format("cannot be written: {}", std::strerror(error)),
                   full ? "Make room there, or write elsewhere."
                        : "Give a path in a folder that exists and that you may write to.");
}

/// Nothing, or a regular file: what a rename can put a file in place of.
bool replaceable(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) cannot_write(path, error.value());
  if (fs::is_directory(status)) {
    throw InputError(path.string(), "is a folder", "Give the name of a file.");
  }
  return !fs::exists(status) || fs::is_regular_file(status);
}

/// Beside the target, and no longer than a name may be where the target's own is not.
std::string unfinished_name(const fs::path& target) {
  constexpr size_t most_kept = 200;
  const fs::path kept = target.parent_path() / target.filename().string().substr(0, most_kept);
  return fmt::format("{}.{}.unfinished", kept.string(), ::getpid());
}

int create(const std::string& name) {
  return ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/// Its folder takes new files. Permissions alone do not say: the system may be read-only.
void try_to_create(const fs::path& path, const fs::path& target) {
  const std::string name = unfinished_name(target);
  const int descriptor = create(name);
  if (descriptor < 0) cannot_write_to(path, errno, target);
  ::close(descriptor);
  ::unlink(name.c_str());
}

/// The names in it are on the disk when it returns; a file system that does not sync folders is
/// left to itself.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 && errno == EACCES) return;  // it may be written to, not read
  if (descriptor < 0) cannot_write(folder, errno);
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS;
  const int error = errno;
  ::close(descriptor);
  if (!synced) cannot_write(folder, error);
}

void rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) cannot_write(to, errno);
}

/// Leaves the old folder at `from`.
void exchange(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) cannot_write(to, errno);
  const fs::path old = from.string() + ".old";
  rename_folder(to, old);
  rename_folder(from, to);
  rename_folder(old, from);
}

}  // namespace

void cannot_write(const fs::path& path, int error) { cannot_write_to(path, error, path); }

bool is_standard_output(const fs::path& path) {
  struct stat given {
  }, standard{};
  return ::stat(path.c_str(), &given) == 0 && ::fstat(STDOUT_FILENO, &standard) == 0 &&
         given.st_dev == standard.st_dev && given.st_ino == standard.st_ino;
}

fs::path written_path(const fs::path& path) {
  if (!replaceable(path)) return path;
  fs::path target = path;
  std::error_code none;
  for (int links = 0; fs::is_symlink(target, none); ++links) {
    if (links == max_links) cannot_write(path, ELOOP);
    target = target.parent_path() / fs::read_symlink(target);
  }
  return target;
}

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  if (is_standard_output(path)) {
    std::fflush(stdout);
    descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  } else if (!replaceable(path)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    target_ = written_path(path);
    unfinished_ = unfinished_name(target_);
    descriptor_ = create(unfinished_);
  }
  if (descriptor_ < 0) cannot_write_to(path, errno, target_.empty() ? path : target_);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!unfinished_.empty()) ::unlink(unfinished_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (!write_all(descriptor_, bytes)) cannot_write(path_, errno);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void OutputFile::seek(int64_t offset) {
  if (::lseek(descriptor_, offset, SEEK_SET) < 0) cannot_write(path_, errno);
}

void OutputFile::close() {
  const bool synced = ::fsync(descriptor_) == 0 || errno == EINVAL || errno == EROFS;
  const int error = synced ? 0 : errno;
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!synced || !closed) cannot_write(path_, synced ? errno : error);
}

void OutputFile::commit() {
  close();
  if (unfinished_.empty()) return;
  if (::rename(unfinished_.c_str(), target_.c_str()) != 0) cannot_write(path_, errno);
  unfinished_.clear();
  sync_folder(folder_of(target_));
}

void check_writable(const fs::path& path) {
  if (is_standard_output(path)) return;
  if (replaceable(path)) return try_to_create(path, written_path(path));
  if (::access(path.c_str(), W_OK) != 0) cannot_write(path, errno);  // to open a pipe would wait
}

void check_writable_folder(const fs::path& folder) {
  std::error_code none;
  const fs::file_status status = fs::status(folder, none);
  if (fs::is_directory(status)) return try_to_create(folder, folder / "");
  if (fs::exists(status) || fs::is_symlink(fs::symlink_status(folder, none))) {
    throw InputError(folder.string(), "is not a folder", "Give the name of a folder.");
  }
  const fs::path name = folder.has_filename() ? folder : folder.parent_path();
  try_to_create(folder, name);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  const fs::path above = folder_of(folder);
  if (above != folder) make_folder(above);
  if (!fs::create_directory(folder, error) && error) cannot_write(folder, error.value());
  sync_folder(above);
}

void put_in_place(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const bool replaces = fs::exists(to, error);
  if (replaces) {
    exchange(from, to);
  } else {
    rename_folder(from, to);
  }
  sync_folder(folder_of(to));
  if (replaces) fs::remove_all(from, error);
}

}  // namespace penstock
