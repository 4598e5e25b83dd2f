// The paths that a command is given: kinds of files by content, checks before it runs.
//
// This file tells the kind, never by the file's name.
#pragma once

#include <filesystem>

namespace penstock::cli {

enum class FileKind {
  model,  // what torch.export.save writes
  job,    // YAML or JSON that begins with `penstock: job`, and so on
  plan,
  cluster,
  device,
  profile,
  layers,      // a table of layers
  trace,       // a Chrome trace
  program,     // a schedule as CSV
  checkpoint,  // a folder that `--save` wrote, or one `step-N` of it
  manifest,    // of a checkpoint
  safetensors,
  torch_save,  // what torch.save writes
  page,        // HTML
  python,      // a Python file with `def model`
  folder,      // another folder
  empty,
  other,
};

/// Reads no more than it needs, and nothing of a pipe or device (`other`). A damaged file is still
/// of the kind that its beginning tells. Throws InputError where there is no such file or it cannot
/// be read.
FileKind file_kind(const std::filesystem::path& path);

}  // namespace penstock::cli
