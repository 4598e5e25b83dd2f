#include "base/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace penstock {

InputFile::InputFile(const std::filesystem::path& path) : path_(path.string()) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw InputError(path_, std::strerror(errno), "Give the path of a file that can be read.");
  }
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    throw InputError(path_, "not a regular file", "Give the path of a file, not of a folder.");
  }
  size_ = status.st_size;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void InputFile::read(int64_t offset, std::span<std::byte> destination) const {
  size_t done = 0;
  while (done < destination.size()) {
    const ssize_t got = pread(descriptor_, destination.data() + done, destination.size() - done,
                              offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InputError(path_, std::strerror(errno));
    if (got == 0) {
      throw InputError(
          path_,
          fmt::format("ends before byte {}", offset + static_cast<int64_t>(destination.size())),
          "The file is truncated or was changed while it was read.");
    }
    done += static_cast<size_t>(got);
  }
}

}  // namespace penstock
