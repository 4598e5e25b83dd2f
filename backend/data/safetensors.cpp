#include "backend/data/safetensors.hpp"

#include "backend/operators/dtype.hpp"

namespace penstock {

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.is_cpu(),
              "bytes of a tensor that is not contiguous");
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::vector<at::Tensor> kept;
  std::vector<SafetensorsTensor> entries;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.detach().to(at::kCPU).contiguous());
    entries.push_back(
        {name, dtype_of(tensor.scalar_type()), tensor.sizes().vec(), bytes_of(kept.back())});
  }
  write_safetensors(path, entries, metadata);
}

at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry& entry = file.entry(name);
  at::Tensor tensor = at::empty(entry.shape, scalar_type(entry.dtype));
  file.read(entry, 0, bytes_of(tensor));
  return tensor;
}

}  // namespace penstock
