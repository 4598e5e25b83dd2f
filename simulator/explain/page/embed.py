"""Makes a C++ header of the page's files: embed.py OUTPUT.hpp FRAME.html STYLE.css SCRIPT.js…

Each file becomes one raw string literal; the scripts keep the order in which they are given.
"""

import sys
from pathlib import Path

LONGEST = 65536  # characters that every C++ compiler has to accept in a literal
END = "penstock"


def literal(path):
    text = Path(path).read_text(encoding="utf-8")
    if len(text.encode()) >= LONGEST or f"){END}\"" in text:
        sys.exit(f"{path}: too long for one string literal, or holds its end; split the file")
    return f'R"{END}({text}){END}"'


def main(output, frame, style, *scripts):
    lines = ["// Written by simulator/explain/page/embed.py.", "#pragma once", "",
             "#include <string_view>", "", "namespace penstock::page_files {", "",
             f"inline constexpr std::string_view frame = {literal(frame)};",
             f"inline constexpr std::string_view style = {literal(style)};",
             "inline constexpr std::string_view scripts[] = {",
             ",\n".join(literal(script) for script in scripts), "};", "",
             "}  // namespace penstock::page_files", ""]
    Path(output).write_text("\n".join(lines), encoding="utf-8")


main(*sys.argv[1:])
