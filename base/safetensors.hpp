// .safetensors: 8 bytes with the length of a JSON header, the header, then the tensors' bytes.
// Everything the header says is checked against the file before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/input_file.hpp"
#include "base/output_file.hpp"

namespace penstock {

/// One tensor of a file: row-major, little-endian.
struct SafetensorsEntry {
  DType dtype = DType::float32;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes in the file
  int64_t bytes() const { return end - begin; }
};

class SafetensorsFile {
 public:
  /// Reads the header. Throws InputError naming the file and what is wrong: a header longer than
  /// the file or 100 MB, no JSON, an unknown dtype, a shape that does not fit its bytes, bytes
  /// outside the file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return file_.path(); }
  /// Throws InputError naming the nearest tensor if there is none of that name.
  const SafetensorsEntry& entry(const std::string& name) const;
  /// Fills `destination` from byte `offset` of the tensor.
  void read(const SafetensorsEntry& entry, int64_t offset, std::span<std::byte> destination) const;

 private:
  InputFile file_;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Throws InputError where the format has no name for a tensor's dtype, as for complex128. `place`:
/// the file, or the flag that asks for it.
void require_storable(const std::string& place, const std::string& tensor, DType dtype);

/// A tensor that a file is to have.
struct SafetensorsPlace {
  std::string name;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;
};

/// The bytes before the tensors', which follow in order without a gap, and where each begins.
struct SafetensorsHead {
  std::string bytes;
  std::vector<int64_t> begins;
};
/// Throws InputError, at `place`, for tensors that are not storable.
SafetensorsHead safetensors_head(const std::string& place,
                                 const std::vector<SafetensorsPlace>& tensors,
                                 const std::map<std::string, std::string>& metadata = {});

/// Writes a file piece by piece, as an OutputFile: `path` never holds half a file. Every member
/// throws InputError if it cannot be written, the constructor also for tensors that are not
/// storable.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<SafetensorsPlace>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

  /// From that byte of the tensor on; all are to be written before `commit`. In the order of the
  /// file `path` may be a pipe.
  void write(size_t tensor, int64_t offset, std::span<const std::byte> bytes);
  void commit() { file_.commit(); }

 private:
  OutputFile file_;
  std::vector<int64_t> begins_;  // of the tensors in the file
  int64_t at_ = 0;
};

/// A tensor to be written; `bytes` is contiguous in row-major order.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<SafetensorsTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// The same of tensors that are read one at a time: no more than one is in memory.
struct SafetensorsSource {
  std::string name;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;
  std::function<void(std::span<std::byte>)> read;  // fills all bytes of the shape
};
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<SafetensorsSource>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace penstock
