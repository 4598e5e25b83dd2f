// The terminal that standard output is written to, if it is one.
#pragma once

namespace penstock::cli {

/// Columns of the terminal; 0 where standard output is none, so that no line need be broken.
int terminal_columns();

/// Only on a terminal, and not where NO_COLOR is set (no-color.org).
bool colours();

}  // namespace penstock::cli
