#include "base/file.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "base/output_file.hpp"

namespace penstock {
namespace {

std::ifstream open(const std::filesystem::path& path) {
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem))
    throw InputError(path.string(), "is a folder", "Give the name of a file.");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw InputError(path.string(), fmt::format("cannot be read: {}", std::strerror(errno)),
                     "Check the path.");
  return file;
}

/// SHA-256 as OpenSSL's libcrypto computes it.
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(std::string_view bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  std::string hexadecimal() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1);
    std::string text;
    for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

 private:
  static void check(bool succeeded) {
    if (!succeeded) throw std::runtime_error("libcrypto cannot compute SHA-256");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file = open(path);
  std::string content;
  std::array<char, 1 << 16> block;
  while (file.read(block.data(), block.size()), file.gcount() > 0)
    content.append(block.data(), static_cast<size_t>(file.gcount()));
  if (file.bad()) throw InputError(path.string(), "cannot be read to its end");
  return content;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  OutputFile file(path);
  file.write(content);
  file.commit();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream file = open(path);
  Sha256 hash;
  std::string piece(1 << 20, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
    hash.add({piece.data(), static_cast<size_t>(file.gcount())});
  if (file.bad()) throw InputError(path.string(), "cannot be read to its end");
  return hash.hexadecimal();
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hexadecimal();
}

}  // namespace penstock
