#include "pipeline/job/text_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.hpp"
#include "pipeline/job/concatenation.hpp"

namespace penstock {

namespace {

constexpr int64_t ids_of_uint16 = 1 << 16;

class TextDataset : public Dataset {
 public:
  TextDataset(const Job& job, DType token)
      : text_(job.data), token_(token), sequence_(job.sequence) {
    for (const InputFile& file : text_.files()) check_size(file);
    const int64_t tokens = text_.size_bytes() / size_bytes(token_);
    samples_ = (tokens - 1) / sequence_;
    if (samples_ < 1) {
      throw InputError(text_.str(),
                       fmt::format("{} tokens are too few for one window of {} and the token "
                                   "after it",
                                   tokens, sequence_),
                       "Give more text, or a smaller `sequence`.");
    }
  }

  int64_t samples() const override { return samples_; }
  SampleType type(const std::string&) const override { return {token_, {sequence_}}; }
  void read(const std::string& name, int64_t first,
            std::span<std::byte> destination) const override {
    text_.read(first_token(name, first) * size_bytes(token_), destination);
  }
  std::string files() const { return text_.str(); }
  std::string place(const std::string& name, int64_t sample, int64_t element) const override {
    const int64_t width = size_bytes(token_);
    const auto [path, offset] = text_.locate((first_token(name, sample) + element) * width);
    return fmt::format("{}: {} {}", path, width == 1 ? "byte" : "token", offset / width);
  }

  /// Every second of the first numbers is 0, and not all are: as wider ones are that are small.
  bool seems_wider() const {
    std::array<uint16_t, 256> numbers{};
    const InputFile& file = text_.files().front();
    const auto count = std::min<size_t>(numbers.size(), file.size_bytes() / 4 * 2);
    constexpr size_t too_few = 16;
    if (count < too_few) return false;
    file.read(0, std::as_writable_bytes(std::span(numbers).first(count)));
    bool zeros[] = {true, true};
    for (size_t i = 0; i < count; ++i) zeros[i % 2] &= numbers[i] == 0;
    return zeros[1] && !zeros[0];
  }

 private:
  void check_size(const InputFile& file) const {
    const int64_t width = size_bytes(token_);
    if (file.size_bytes() % width == 0) return;
    throw InputError(
        file.path(),
        fmt::format("has {} bytes, no whole number of tokens of {}", file.size_bytes(), width),
        "A .bin holds `token_bytes` bytes for each token, 2 unless given.");
  }
  /// A target is the token after the one of the input.
  int64_t first_token(const std::string& name, int64_t sample) const {
    return sample * sequence_ + (name == kTarget ? 1 : 0);
  }

  Concatenation text_;
  DType token_;
  int64_t sequence_ = 0, samples_ = 0;
};

DType token_type(const Job& job) {
  if (std::filesystem::path(job.data.front()).extension() != ".bin") return DType::uint8;
  return job.token_bytes == 4 ? DType::uint32 : DType::uint16;
}

/// A job that does not say how wide its tokens are, where they may be wider than 2 bytes.
void check_width(const Job& job, const TextDataset& data, const ExpectedSample& tokens) {
  constexpr const char* cure =
      "Write `token_bytes: 4` for uint32 tokens, `token_bytes: 2` for "
      "uint16.";
  if (tokens.limit.value_or(0) > ids_of_uint16) {
    throw InputError(job.data.front(),
                     fmt::format("the model has {} tokens, more than the {} of a .bin of uint16",
                                 *tokens.limit, ids_of_uint16),
                     cure);
  }
  if (data.seems_wider()) {
    throw InputError(job.data.front(),
                     "read as uint16 every second of its first tokens is 0, as if they were uint32",
                     cure);
  }
}

}  // namespace

std::unique_ptr<Dataset> open_text(const Job& job, const std::vector<ExpectedSample>& expected) {
  if (job.sequence < 1) {
    throw InputError("job", "sequence is missing",
                     "Text is cut into windows of `sequence` tokens.");
  }
  const auto inputs = std::count_if(expected.begin(), expected.end(),
                                    [](const ExpectedSample& s) { return s.name != kTarget; });
  if (inputs != 1 || is_floating(expected.front().dtype)) {
    throw InputError(job.model, "text needs a model with one input of integers, the token ids",
                     "Give the data as .safetensors files.");
  }
  const DType token = token_type(job);
  auto data = std::make_unique<TextDataset>(job, token);
  if (token == DType::uint16 && job.token_bytes == 0) check_width(job, *data, expected.front());
  for (const ExpectedSample& sample : expected)
    check_type(fmt::format("{}: {}", data->files(), sample.name), data->type(sample.name), sample);
  return data;
}

}  // namespace penstock
