// Files: whole reads, fingerprints, and writes that are never seen half-done.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace penstock {

/// Throws InputError if the file cannot be read.
std::string read_file(const std::filesystem::path& path);
/// All at once, as an OutputFile (base/output_file.hpp). Throws InputError if it cannot.
void write_file(const std::filesystem::path& path, std::string_view content);
/// Writes all of it to a descriptor; false, with errno, where that fails.
bool write_all(int descriptor, std::string_view bytes);
/// Lower-case hexadecimal SHA-256 (FIPS 180-4) of a file, read in pieces.
std::string sha256_of_file(const std::filesystem::path& path);
std::string sha256(std::string_view bytes);

}  // namespace penstock
