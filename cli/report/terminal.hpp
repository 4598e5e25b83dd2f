// The terminal that standard output is written to, if it is one.
#pragma once

#include <unistd.h>

namespace penstock::cli {

/// Columns of the terminal that this file is; 0 where it is none, so that no line need be broken.
int terminal_columns(int file = STDOUT_FILENO);

/// Only on a terminal, and not where NO_COLOR is set (no-color.org).
bool colours();

}  // namespace penstock::cli
