// Damaged files end in an InputError, never in a crash, a hang or a wrong model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "graph/error.hpp"
#include "tests/graph/pt2_file.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing::Members;
using testing::Pt2;
using testing::TemporaryFile;
using ::testing::ThrowsMessage;
using testing::write_zip;

/// Reads the graph and every weight.
void read_all(const std::string& path) {
  const Graph graph = read_pt2(path);
  const WeightFile weights(path);
  for (const StoredTensor& tensor : graph.tensors) {
    std::vector<std::byte> values(static_cast<size_t>(tensor.bytes()));
    weights.read(tensor, values);
  }
}

/// A new file each time: file systems flush one that is cut and written again.
void put(const std::string& path, const std::string& content) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

std::string sound() {
  const TemporaryFile file;
  Pt2().write(file.path);
  return read_file(file.path);
}

TEST(Pt2Damage, EveryTruncationIsRefused) {
  const std::string content = sound();
  const TemporaryFile file;
  for (size_t length = 0; length < content.size(); ++length) {
    put(file.path, content.substr(0, length));
    EXPECT_THROW(read_all(file.path), InputError) << length << " of " << content.size();
  }
}

TEST(Pt2Damage, AFlippedBitIsRefusedOrHarmless) {
  const std::string content = sound();
  const TemporaryFile file;
  int refused = 0;
  for (size_t at = 0; at < content.size(); ++at) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    put(file.path, damaged);
    try {
      read_all(file.path);
    } catch (const InputError&) {
      ++refused;
    }  // any other exception fails the test
  }
  // Only bytes without meaning for a reader (dates, versions, attributes) may change unseen: fewer
  // than the 76 + filename bytes of headers for each of the 4 members.
  EXPECT_GT(refused, static_cast<int>(content.size()) - 4 * 100);
}

TEST(Pt2Damage, AFlippedBitInTheModelOrAWeightIsAlwaysFound) {
  const std::string content = sound();
  const TemporaryFile file;
  for (const std::string marker : {"schema_version", "\1\1\1\1\1\1", "path_name"}) {
    std::string damaged = content;
    const size_t at = content.find(marker);
    ASSERT_NE(at, std::string::npos);
    damaged[at + 2] ^= 4;
    put(file.path, damaged);
    EXPECT_THROW(read_all(file.path), InputError) << marker;
  }
}

TEST(Pt2Damage, WhatIsNoZipIsRefused) {
  const TemporaryFile file;
  for (const std::string& content : {std::string(), std::string("{}"), std::string(100000, 'x')}) {
    put(file.path, content);
    EXPECT_THAT([&] { read_pt2(file.path); }, ThrowsMessage<InputError>(HasSubstr(file.path)));
  }
  EXPECT_THAT([] { read_pt2("missing.pt2"); },
              ThrowsMessage<InputError>(HasSubstr("no such file")));
  EXPECT_THROW(read_pt2(::testing::TempDir()), InputError);
}

TEST(Pt2Damage, NamesThatLeaveTheRootFolderAreRefused) {
  const TemporaryFile file;
  for (const char* name :
       {"m/../../etc/passwd", "/etc/passwd", "m//x", "other/x", "m/./x", "x", "m\\..\\x"}) {
    write_zip(file.path, {{"m/byteorder", "little"}, {name, "x"}});
    EXPECT_THROW(read_pt2(file.path), InputError) << name;
  }
}

TEST(Pt2Damage, CompressedMembersAreRefused) {
  const TemporaryFile file;
  write_zip(file.path, {{"m/models/model.json", std::string(1000, ' ')}}, ZIP_CM_DEFLATE);
  EXPECT_THAT([&] { read_pt2(file.path); }, ThrowsMessage<InputError>(HasSubstr("compressed")));
}

TEST(Pt2Damage, JsonThatIsNotAModelIsRefused) {
  const TemporaryFile file;
  const std::string deep(200000, '[');
  for (const std::string& model :
       {std::string("null"), std::string("[]"), std::string("{"), deep,
        std::string(R"({"schema_version": {"major": "8"}})"),
        std::string(R"({"schema_version": {"major": 8}})"), std::string("\xff\xfe")}) {
    write_zip(file.path, {{"m/models/model.json", model}});
    EXPECT_THROW(read_pt2(file.path), InputError) << model.substr(0, 50);
  }
}

/// Puts a value of another kind, or nothing, in every place of the model, one at a time.
void damage(const testing::Json& whole, testing::Json& part, const TemporaryFile& file, Pt2& pt2,
            int& tried) {
  if (part.is_structured())
    for (auto& child : part) damage(whole, child, file, pt2, tried);
  const testing::Json before = part;
  for (const testing::Json& other :
       {testing::Json(nullptr), testing::Json(-7), testing::Json("x"), testing::Json::array(),
        testing::Json::object(), testing::Json(1e300)}) {
    part = other;
    pt2.write(file.path);
    try {
      read_all(file.path);
    } catch (const InputError&) {
    }
    ++tried;
  }
  part = before;
}

TEST(Pt2Damage, AnotherValueAnywhereInTheModelNeverCrashes) {
  Pt2 pt2;
  const TemporaryFile file;
  int tried = 0;
  damage(pt2.model, pt2.model, file, pt2, tried);
  damage(pt2.weights, pt2.weights, file, pt2, tried);
  EXPECT_GT(tried, 1000);
}

}  // namespace
}  // namespace penstock
