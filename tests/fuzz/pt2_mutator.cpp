// Changes a `.pt2` so that it stays a zip: a member of it, as bytes or as JSON, under a right
// checksum. One time in eight the bytes of the whole file, so that the zip is fuzzed too.
#include <zip.h>

#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/fuzz/fuzz.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed);

namespace {

using Json = nlohmann::json;
using Members = std::map<std::string, std::string>;
using Random = std::minstd_rand;
using Archive = std::unique_ptr<zip_t, void (*)(zip_t*)>;

/// libFuzzer's inputs are small; a bomb's members are not read.
constexpr zip_uint64_t largest_member = 1 << 20;

Members unpack(const uint8_t* data, size_t size) {
  Members members;
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(data, size, 0, &error);
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, &error), zip_discard);
  zip_error_fini(&error);
  if (!archive) {
    zip_source_free(source);
    return members;
  }
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    zip_stat_t stat;
    zip_file_t* file = zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0);
    if (!file) continue;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &stat) == 0 &&
        stat.size < largest_member) {
      std::string content(stat.size, '\0');
      const zip_int64_t got = zip_fread(file, content.data(), content.size());
      content.resize(got < 0 ? 0 : static_cast<size_t>(got));
      members[stat.name] = content;
    }
    zip_fclose(file);
  }
  return members;
}

/// Stored, without the time of day.
std::string pack(const Members& members) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(source);
  Archive archive(zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error), zip_discard);
  zip_error_fini(&error);
  for (const auto& [name, content] : members) {
    zip_source_t* member = zip_source_buffer(archive.get(), content.data(), content.size(), 0);
    const zip_int64_t index = zip_file_add(archive.get(), name.c_str(), member, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(member);
      continue;
    }
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    zip_file_set_mtime(archive.get(), static_cast<zip_uint64_t>(index), 315532800, 0);
  }
  std::string packed;
  if (zip_close(archive.get()) == 0) {
    archive.release();
    zip_stat_t stat;
    if (zip_source_stat(source, &stat) == 0 && zip_source_open(source) == 0) {
      packed.resize(stat.size);
      zip_source_read(source, packed.data(), packed.size());
      zip_source_close(source);
    }
  }
  zip_source_free(source);
  return packed;
}

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (Json& element : value) collect(element, all);
}

Json number(Random& random) {
  const Json numbers[] = {0, 1, -1, 2, 7, 13, 64, INT64_MAX, INT64_MIN, UINT64_MAX, 0.5, 1e300};
  return numbers[random() % std::size(numbers)];
}

/// One part of the document becomes another one, a number, less or more.
void change(Json& document, Random& random) {
  std::vector<Json*> all;
  collect(document, all);
  Json& part = *all[random() % all.size()];
  const Json other = *all[random() % all.size()];
  const unsigned kind = random() % 5;
  if (kind == 0 && part.is_structured() && !part.empty()) {
    auto element = part.begin();
    std::advance(element, static_cast<std::ptrdiff_t>(random() % part.size()));
    part.erase(element);
  } else if (kind == 1 && part.is_array() && !part.empty()) {
    const Json again = part[random() % part.size()];
    part.insert(part.begin() + static_cast<std::ptrdiff_t>(random() % part.size()), again);
  } else if (kind == 2 || part.is_number()) {
    part = number(random);
  } else {
    part = other;
  }
}

void change_member(std::string& content, Random& random, size_t largest) {
  Json document = Json::parse(content, nullptr, false);
  if (!document.is_discarded() && document.is_structured() && random() % 4 != 0) {
    for (unsigned count = 1 + random() % 3; count > 0; --count) change(document, random);
    content = document.dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  const size_t size = content.size();
  content.resize(std::max(size, largest));
  content.resize(
      LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(content.data()), size, content.size()));
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  Random random(seed);
  Members members = random() % 8 == 0 ? Members() : unpack(data, size);
  if (members.empty()) return LLVMFuzzerMutate(data, size, max_size);
  auto member = members.begin();
  std::advance(member, static_cast<std::ptrdiff_t>(random() % members.size()));
  for (auto at = members.begin(); at != members.end(); ++at)  // half of the time the graph
    if (at->first.ends_with("model.json") && random() % 2 == 0) member = at;
  change_member(member->second, random, member->second.size() + 64);
  const std::string packed = pack(members);
  if (packed.empty() || packed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, packed.data(), packed.size());
  return packed.size();
}
