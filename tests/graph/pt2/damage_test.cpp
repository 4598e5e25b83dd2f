// Damaged files end in an InputError, never in a crash, a hang or a wrong model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"
#include "tests/graph/pt2/pt2_file.hpp"

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

/// Where the records of the central directory begin.
std::vector<size_t> directory(const std::string& content) {
  std::vector<size_t> records;
  for (size_t at = content.find("PK\1\2"); at != std::string::npos;
       at = content.find("PK\1\2", at + 4))
    records.push_back(at);
  return records;
}

void put_number(std::string& content, size_t at, uint32_t value) {
  for (int byte = 0; byte < 4; ++byte)
    content[at + static_cast<size_t>(byte)] = static_cast<char>(value >> (8 * byte));
}

constexpr size_t crc_field = 16, stored_field = 20, size_field = 24, offset_field = 42;

TEST(Pt2Damage, MembersThatShareBytesAreRefused) {
  std::string content = sound();
  const auto records = directory(content);
  ASSERT_EQ(records.size(), 4u);
  const TemporaryFile file;
  for (const size_t record : records) {
    for (const size_t other : records) {
      if (other == record) continue;
      std::string damaged = content;
      damaged.replace(record + offset_field, 4, content, other + offset_field, 4);
      put(file.path, damaged);
      EXPECT_THROW(read_all(file.path), InputError);
    }
  }
}

TEST(Pt2Damage, SizesThatAreNotTheMembersAreRefused) {
  const std::string content = sound();
  const TemporaryFile file;
  for (const size_t record : directory(content)) {
    for (const uint32_t size : {0u, 1u, 1000000u, 0x7fffffffu, 0xfffffffeu}) {
      std::string damaged = content;
      put_number(damaged, record + size_field, size);
      put(file.path, damaged);
      EXPECT_THROW(read_all(file.path), InputError) << size;
      put_number(damaged, record + stored_field, size);  // both say the same
      put(file.path, damaged);
      EXPECT_THROW(read_all(file.path), InputError) << size;
    }
  }
}

TEST(Pt2Damage, AWrongChecksumIsRefused) {
  const std::string content = sound();
  const TemporaryFile file;
  for (const size_t record : directory(content)) {
    std::string damaged = content;
    put_number(damaged, record + crc_field, 0x12345678);
    put(file.path, damaged);
    EXPECT_THROW(read_all(file.path), InputError) << record;
  }
}

/// Each layer of a nested structure costs the reader a call, so there is a limit.
TEST(Pt2Damage, DeeplyNestedGraphsAndSizesAreRefused) {
  Pt2 graphs;
  testing::Json inner = graphs.graph();
  for (int depth = 0; depth < 200; ++depth) {
    testing::Json outer = graphs.graph();
    outer["nodes"] = {testing::node(
        "torch.ops.higher_order.wrap_with_set_grad_enabled",
        {testing::argument_json("", {{"as_bool", false}}),
         testing::argument_json("", {{"as_graph", {{"name", "g"}, {"graph", std::move(inner)}}}}),
         testing::argument_json("", testing::named("p_w")),
         testing::argument_json("", testing::named("x"))},
        {testing::named("mul")})};
    inner = std::move(outer);
  }
  graphs.graph() = std::move(inner);
  EXPECT_THAT([&] { graphs.read(); }, ThrowsMessage<InputError>(HasSubstr("nested too deeply")));
  Pt2 sizes;
  std::string text;
  for (int depth = 0; depth < 100000; ++depth) text += "Mul(Integer(1), ";
  sizes.graph()["tensor_values"]["x"]["sizes"][1] = {
      {"as_expr", {{"expr_str", text}, {"hint", nullptr}}}};
  EXPECT_THROW(sizes.read(), InputError);
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
