#include "base/appended_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.hpp"
#include "base/output_file.hpp"

namespace penstock {
namespace {

/// The size of a regular file, -1 for what has none.
int64_t size_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

}  // namespace

AppendedFile::AppendedFile(const std::filesystem::path& path, int64_t kept)
    : path_(path),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) cannot_write(path_, errno);
  if (size_of(descriptor_) <= kept || ::ftruncate(descriptor_, kept) == 0) return;
  const int error = errno;
  ::close(descriptor_);
  cannot_write(path_, error);
}

AppendedFile::~AppendedFile() { ::close(descriptor_); }

void AppendedFile::append(std::string_view record) {
  const int64_t before = size_of(descriptor_);
  if (write_all(descriptor_, record)) return;
  const int error = errno;
  if (before >= 0 && ::ftruncate(descriptor_, before) != 0) cannot_write(path_, errno);
  cannot_write(path_, error);
}

}  // namespace penstock
