#include "pipeline/job/text_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/input_file.hpp"

namespace penstock {

namespace {

/// Files one after the other.
class Concatenation {
 public:
  /// Returns the file's size.
  int64_t add(const std::string& path) {
    files_.emplace_back(path);
    size_ += files_.back().size_bytes();
    return files_.back().size_bytes();
  }
  int64_t size_bytes() const { return size_; }
  void read(int64_t offset, std::span<std::byte> destination) const {
    for (const InputFile& file : files_) {
      if (offset < file.size_bytes() && !destination.empty()) {
        const auto run = std::min<size_t>(file.size_bytes() - offset, destination.size());
        file.read(offset, destination.first(run));
        destination = destination.subspan(run);
        offset = 0;
      } else {
        offset -= std::min(offset, file.size_bytes());
      }
    }
  }

 private:
  std::vector<InputFile> files_;
  int64_t size_ = 0;
};

class TextDataset : public Dataset {
 public:
  TextDataset(const Job& job, DType token) : token_(token), sequence_(job.sequence) {
    for (const std::string& path : job.data) {
      if (text_.add(path) % size_bytes(token_) != 0) {
        throw InputError(path, "has an odd number of bytes",
                         "A .bin holds 2 bytes for each token.");
      }
      place_ += (place_.empty() ? "" : ", ") + path;
    }
    const int64_t tokens = text_.size_bytes() / size_bytes(token_);
    samples_ = (tokens - 1) / sequence_;
    if (samples_ < 1) {
      throw InputError(place_,
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
    const int64_t width = size_bytes(token_);
    const int64_t shift = name == kTarget ? 1 : 0;
    int64_t sample = first % samples_;
    while (!destination.empty()) {
      const auto run =
          std::min<size_t>((samples_ - sample) * sequence_ * width, destination.size());
      text_.read((sample * sequence_ + shift) * width, destination.first(run));
      destination = destination.subspan(run);
      sample = 0;
    }
  }
  std::string place() const override { return place_; }

 private:
  Concatenation text_;
  DType token_;
  int64_t sequence_ = 0, samples_ = 0;
  std::string place_;
};

}  // namespace

std::unique_ptr<Dataset> open_text(const Job& job, const std::vector<ExpectedSample>& expected) {
  const auto binary = std::count_if(job.data.begin(), job.data.end(), [](const std::string& path) {
    return std::filesystem::path(path).extension() == ".bin";
  });
  if (binary != 0 && binary != static_cast<std::ptrdiff_t>(job.data.size())) {
    throw InputError("data", "mixes text and .bin files", "Give files of one kind.");
  }
  if (job.sequence < 1) {
    throw InputError("job", "sequence is missing",
                     "Text is cut into windows of `sequence` tokens.");
  }
  const auto inputs = std::count_if(expected.begin(), expected.end(),
                                    [](const ExpectedSample& s) { return s.name != kTarget; });
  if (inputs != 1 || is_floating(expected.front().dtype)) {
    throw InputError(job.model, "text needs a model with one input of integers, the token ids",
                     "Give the data as one .safetensors file.");
  }
  return std::make_unique<TextDataset>(job, binary > 0 ? DType::uint16 : DType::uint8);
}

}  // namespace penstock
