#include "graph/pt2/zip.hpp"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.hpp"

namespace penstock {
namespace {

constexpr std::string_view cure = "Export the model again, or copy the file again.";

/// No empty part, no `.` or `..`, no backslash, not absolute.
bool is_plain(std::string_view name) {
  if (name.empty() || name.find('\\') != std::string_view::npos) return false;
  while (true) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    if (part.size() == name.size()) return true;
    name.remove_prefix(part.size() + 1);
  }
}

struct zip* open(const std::string& path) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem)) {
    throw InputError(
        path,
        std::filesystem::exists(path, problem) ? "is no regular file" : "there is no such file",
        "Give a .pt2 that export_model.py wrote.");
  }
  int code = 0;
  struct zip* archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  if (archive) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw InputError(path, fmt::format("is no complete .pt2 file ({})", reason), cure);
}

}  // namespace

Zip::Zip(const std::string& path)
    : path_(path), archive_(open(path), [](struct zip* archive) { zip_discard(archive); }) {
  const auto file_size = static_cast<int64_t>(std::filesystem::file_size(path));
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  for (zip_int64_t index = 0; index < count; ++index) add(static_cast<uint64_t>(index), file_size);
  if (members_.empty()) throw InputError(path, "is an empty zip file", cure);
}

Zip::~Zip() = default;

void Zip::add(uint64_t index, int64_t file_size) {
  zip_stat_t stat;
  constexpr auto needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                          ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive_.get(), index, 0, &stat) != 0 || (stat.valid & needed) != needed)
    throw InputError(path_, fmt::format("member {} has no description", index), cure);
  std::string name = stat.name;
  const bool folder = name.ends_with('/');
  if (folder) name.pop_back();
  if (!is_plain(name))
    throw InputError(path_, fmt::format("member '{}' has an unsafe name", name), cure);
  const std::string root = name.substr(0, name.find('/'));
  if (root_.empty()) root_ = root;
  if (root != root_ || (!folder && root == name))
    throw InputError(path_, fmt::format("member '{}' is not in the folder '{}'", name, root_),
                     cure);
  if (folder) return;
  if (stat.comp_method != ZIP_CM_STORE || stat.encryption_method != ZIP_EM_NONE)
    throw InputError(path_, fmt::format("member '{}' is compressed or encrypted", name),
                     "A .pt2 holds its members as they are; write it with torch.export.save.");
  if (stat.size != stat.comp_size || stat.size > static_cast<uint64_t>(file_size))
    throw InputError(
        path_,
        fmt::format("member '{}' claims {} bytes in a file of {}", name, stat.size, file_size),
        cure);
  claimed_ += static_cast<int64_t>(stat.size);
  if (claimed_ > file_size)
    throw InputError(
        path_, fmt::format("its members claim more than its {} bytes: they overlap", file_size),
        cure);
  const Member entry{index, static_cast<int64_t>(stat.size)};
  if (!members_.emplace(name, entry).second)
    throw InputError(path_, fmt::format("member '{}' is there twice", name), cure);
}

const Zip::Member& Zip::member(const std::string& name) const {
  const auto found = members_.find(name);
  if (found != members_.end()) return found->second;
  throw InputError(path_, fmt::format("has no member '{}'", name), cure);
}

int64_t Zip::size(const std::string& name) const { return member(name).size; }

std::vector<std::string> Zip::find(const std::string& prefix, const std::string& suffix) const {
  std::vector<std::string> names;
  const std::string begin = full(prefix);
  for (auto at = members_.lower_bound(begin); at != members_.end(); ++at) {
    if (!at->first.starts_with(begin)) break;
    if (at->first.ends_with(suffix)) names.push_back(at->first);
  }
  return names;
}

std::string Zip::read(const std::string& name) const {
  std::string content(static_cast<size_t>(size(name)), '\0');
  read(name, 0, std::as_writable_bytes(std::span(content)));
  return content;
}

void Zip::read(const std::string& name, int64_t offset, std::span<std::byte> destination) const {
  const Member& wanted = member(name);
  const auto length = static_cast<int64_t>(destination.size());
  if (offset < 0 || length > wanted.size || offset > wanted.size - length)
    throw std::logic_error("Zip::read: beyond the end of " + name);
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
      zip_fopen_index(archive_.get(), wanted.index, 0), zip_fclose);
  const auto refuse = [&](const char* reason) {
    throw InputError(path_, fmt::format("member '{}' cannot be read: {}", name, reason), cure);
  };
  if (!file) refuse(zip_strerror(archive_.get()));
  std::array<std::byte, 65536> passing;  // what lies before and behind the wanted part
  int64_t at = 0;
  while (true) {  // reading beyond the last byte is what verifies the checksum
    const bool inside = at >= offset && at < offset + length;
    const int64_t piece = inside        ? offset + length - at
                          : at < offset ? std::min<int64_t>(offset - at, passing.size())
                                        : static_cast<int64_t>(passing.size());
    std::byte* to = inside ? destination.data() + (at - offset) : passing.data();
    const zip_int64_t got = zip_fread(file.get(), to, static_cast<zip_uint64_t>(piece));
    if (got < 0) refuse(zip_file_strerror(file.get()));
    if (got == 0) break;
    at += got;
  }
  if (at != wanted.size) refuse("its length is not what the directory says");
}

}  // namespace penstock
