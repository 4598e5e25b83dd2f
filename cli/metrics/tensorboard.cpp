// TensorBoard's event files: Event messages, framed as TFRecords.
#include <event.pb.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/appended_file.hpp"
#include "cli/metrics/metrics.hpp"

namespace penstock::cli {

namespace {

using tensorboard::Event;
using tensorboard::SessionLog;
using tensorboard::Summary;

template <typename Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// CRC-32C, masked as in a file that may hold checksums of its own parts.
std::string masked_crc(const std::string& bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const auto sum = static_cast<uint32_t>(crc.checksum());
  return little_endian((sum >> 15 | sum << 17) + 0xa282ead8U);
}

/// Length and data, each with its checksum.
std::string tf_record(const std::string& data) {
  const std::string length = little_endian<uint64_t>(data.size());
  return length + masked_crc(length) + data + masked_crc(data);
}

std::chrono::microseconds now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// TensorBoard reads the files of a folder in the order of their names.
std::string file_name() {
  const int64_t time_us = now().count();
  return fmt::format("events.out.tfevents.{:010}.{:06}.{}.{}", time_us / 1'000'000,
                     time_us % 1'000'000, host_name(), getpid());
}

void add_scalar(Summary& summary, const std::string& tag, double value) {
  Summary::Value& scalar = *summary.add_value();
  scalar.set_tag(tag);
  scalar.set_simple_value(static_cast<float>(value));
}

class TensorBoard : public MetricsFile {
 public:
  TensorBoard(std::string folder, int64_t done) : folder_(std::move(folder)), done_(done) {}

  void write(const nlohmann::ordered_json& step) override {
    if (!file_) open();
    Event event;
    event.set_step(step.at("step").get<int64_t>());
    for (const auto& [key, value] : step.items()) {
      if (key == "step" || value.is_null()) continue;
      if (!value.is_array()) add_scalar(*event.mutable_summary(), key, value.get<double>());
      for (size_t rank = 0; value.is_array() && rank < value.size(); ++rank)
        add_scalar(*event.mutable_summary(), fmt::format("{}/rank_{}", key, rank),
                   value[rank].get<double>());
    }
    append(event);
  }

 private:
  void open() {
    std::error_code none;  // where it cannot be made, the file cannot be written
    std::filesystem::create_directory(folder_, none);
    file_.emplace(std::filesystem::path(folder_) / file_name());
    Event version, start;
    version.set_file_version("brain.Event:2");
    append(version);
    start.set_step(done_ + 1);
    start.mutable_session_log()->set_status(SessionLog::START);
    append(start);
  }

  void append(Event& event) {
    event.set_wall_time(std::chrono::duration<double>(now()).count());
    file_->append(tf_record(event.SerializeAsString()));
  }

  std::string folder_;
  int64_t done_;
  std::optional<AppendedFile> file_;
};

}  // namespace

std::unique_ptr<MetricsFile> make_tensorboard(const std::string& folder, int64_t done) {
  return std::make_unique<TensorBoard>(folder, done);
}

}  // namespace penstock::cli
