#include "cli/command_line/commands.hpp"

int main(int argc, char** argv) { return penstock::cli::run(argc, argv); }
