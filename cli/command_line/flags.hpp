// The flags of each command.
#pragma once

namespace penstock::cli {

class Declared;

/// Declares a command's flags and the function that carries it out with what was parsed.
void declare_profile(Declared& command);
void declare_plan(Declared& command);
void declare_simulate(Declared& command);
void declare_execute(Declared& command);
void declare_serve(Declared& command);
void declare_compare(Declared& command);
void declare_export(Declared& command);
void declare_show(Declared& command);

}  // namespace penstock::cli
