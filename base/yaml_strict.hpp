// The first pass over a YAML text: refuses texts that yaml-cpp would take but a person cannot mean.
#pragma once

#include <string>

namespace YAML {
class Exception;
}

namespace penstock {

/// Throws InputError (file, line and column) that says what yaml-cpp met in `text`.
[[noreturn]] void refuse_yaml(const YAML::Exception& error, const std::string& text,
                              const std::string& file);

/// Throws InputError (file and line) for anchors and aliases, so that no cycle and no alias bomb
/// exists; tags; a key given twice in a mapping; a key that is not a text; several documents; deep
/// nesting; and what is not YAML at all. Only the parser's events are used: memory stays linear.
void require_strict_yaml(const std::string& text, const std::string& file);

}  // namespace penstock
