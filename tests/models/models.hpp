// Where the tests find the models that export_all.py exports. PENSTOCK_TEST_MODELS in the
// environment names another folder. A test that needs one begins with PENSTOCK_MODEL(path,
// "pippy"), which skips the test visibly where the file is missing (no torch in .venv).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace penstock::testing {

inline std::string model_path(const std::string& name) {
  const char* folder = std::getenv("PENSTOCK_TEST_MODELS");
  return (std::filesystem::path(folder ? folder : PENSTOCK_TEST_MODELS) / (name + ".pt2")).string();
}

}  // namespace penstock::testing

/// Declares `const std::string variable`, the path of the model, or skips the test.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define PENSTOCK_MODEL(variable, name)                                \
  const std::string variable = ::penstock::testing::model_path(name); \
  if (!std::filesystem::exists(variable))                             \
  GTEST_SKIP() << variable << " is missing: the tests export it with torch from .venv"
// NOLINTEND(bugprone-macro-parentheses)
