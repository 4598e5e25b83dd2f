// .safetensors files: tensors are read back as written, and broken headers are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/data/safetensors.hpp"
#include "base/error.hpp"
#include "tests/backend/support.hpp"

namespace penstock {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A file with that header and `data` bytes of zeros.
std::string file_of(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file + header + std::string(data, '\0');
}

std::string refusal(const std::string& content) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("bad.safetensors", content);
  return message_of<InputError>([&] { SafetensorsFile{path}; });
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  at::manual_seed(0);
  const NamedTensors written{{"a", at::randn({2, 3})},
                             {"b", at::randn({4, 2}, at::kDouble).t()},
                             {"c", at::randint(100, {5}, at::kLong)},
                             {"d", at::ones({2}, at::kBool)},
                             {"empty", at::empty({0, 3})},
                             {"scalar", at::full({}, 2.5)}};
  write_tensors(path, written, {{"step", "3"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("step"), "3");
  for (const auto& [name, tensor] : written) {
    const at::Tensor read = read_tensor(file, name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.equal(tensor)) << name;
  }
}

TEST(Safetensors, NamesTheNearestTensor) {
  const test::TemporaryFolder folder;
  write_tensors(folder / "x.safetensors", {{"tokens", at::zeros({1})}});
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_THAT(message_of<InputError>([&] { file.entry("token"); }),
              HasSubstr("Did you mean tokens?"));
}

TEST(Safetensors, RefusesHeadersThatLie) {
  EXPECT_THAT(refusal("short"), HasSubstr("too short"));
  EXPECT_THAT(refusal(file_of(std::string(40, ' '), 0).substr(0, 30)), HasSubstr("truncated"));
  EXPECT_THAT(refusal(std::string(8, '\xff') + "{}"), HasSubstr("header of"));
  EXPECT_THAT(refusal(file_of("[1, 2", 0)), HasSubstr("not JSON"));
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  EXPECT_THAT(refusal(file_of(tensor("F99", "[1]", "[0,4]"), 4)), HasSubstr("unknown dtype F99"));
  EXPECT_THAT(refusal(file_of(tensor("F32", "[2]", "[0,8]"), 4)), HasSubstr("outside the file"));
  EXPECT_THAT(refusal(file_of(tensor("F32", "[2]", "[8,0]"), 8)), HasSubstr("outside the file"));
  EXPECT_THAT(refusal(file_of(tensor("F32", "[2]", "[-8,0]"), 8)), HasSubstr("outside the file"));
  EXPECT_THAT(refusal(file_of(tensor("F32", "[3]", "[0,8]"), 8)),
              HasSubstr("does not take 8 bytes"));
  EXPECT_THAT(refusal(file_of(tensor("F32", "[4611686018427387904,4]", "[0,8]"), 8)),
              HasSubstr("does not take"));
  EXPECT_THAT(refusal(file_of(R"({"x":{"dtype":"F32"}})", 0)), HasSubstr("broken header"));
  EXPECT_THAT(refusal(file_of(R"({"x":5})", 0)), HasSubstr("broken header"));
}

TEST(Safetensors, RefusesToWriteATypeThatTheFormatDoesNotHave) {
  const test::TemporaryFolder folder;
  const NamedTensors tensors{{"phase", at::zeros({2}, at::kComplexDouble)}};
  EXPECT_THAT(message_of<InputError>([&] { write_tensors(folder / "x.safetensors", tensors); }),
              AllOf(HasSubstr("x.safetensors"), HasSubstr("phase is complex128"),
                    HasSubstr("view_as_complex")));
  EXPECT_FALSE(std::filesystem::exists(folder / "x.safetensors"));
}

TEST(Safetensors, LeavesNothingWhereItCannotWrite) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(write_tensors(folder / "no/x.safetensors", {{"a", at::zeros({1})}}), InputError);
  EXPECT_FALSE(std::filesystem::exists(folder / "no"));
}

}  // namespace
}  // namespace penstock
