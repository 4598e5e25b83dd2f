"""Makes a C++ header of the page's files: embed.py OUTPUT.hpp FILE…

Each becomes one raw string literal, named after it: page.css is page_css.
"""

import sys
from pathlib import Path

LONGEST = 65536  # characters that every C++ compiler has to accept in a literal
END = "penstock"


def literal(path):
    text = path.read_text(encoding="utf-8")
    if len(text.encode()) >= LONGEST or f"){END}\"" in text:
        sys.exit(f"{path}: too long for one string literal, or holds its end; split the file")
    return f'R"{END}({text}){END}"'


def main(output, *files):
    lines = ["// Written by simulator/explain/page/embed.py.", "#pragma once", "",
             "#include <string_view>", "", "namespace penstock::page_files {", ""]
    for path in map(Path, files):
        name = path.name.replace(".", "_")
        lines.append(f"inline constexpr std::string_view {name} = {literal(path)};")
    lines += ["", "}  // namespace penstock::page_files", ""]
    Path(output).write_text("\n".join(lines), encoding="utf-8")


main(*sys.argv[1:])
