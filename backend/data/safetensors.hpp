// Tensors to and from .safetensors files.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/safetensors.hpp"

namespace penstock {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes atomically: `path` never holds half a file. Throws InputError where it cannot.
void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                   const std::map<std::string, std::string>& metadata = {});
/// The tensor `name` of an open file.
at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name);

/// The bytes of a contiguous tensor.
std::span<std::byte> bytes_of(const at::Tensor& tensor);

}  // namespace penstock
