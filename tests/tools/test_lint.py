"""The tree passes tools/lint --fast, and tools/check_layout.py finds what it says that it finds."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYOUT = ROOT / "tools" / "check_layout.py"
MAP = "| `base/` | strings |\n| `graph/` | the model |\n| `graph/pt2/` | reads it |\n"


def reference_clang_format():
    if shutil.which("clang-format") is None:
        return False
    done = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True)
    return " version 14." in done.stdout


@pytest.mark.skipif(not reference_clang_format(),
                    reason="clang-format 14 is not installed (tools/packages-test.txt)")
def test_the_tree_is_in_order():
    done = subprocess.run([ROOT / "tools" / "lint", "--fast"], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, f"tools/lint --fast\n{done.stdout}{done.stderr}"


@pytest.fixture
def layout(tmp_path):
    """Runs tools/check_layout.py on a good tree with these files in it; its status and lines."""
    good = {"docs/architecture.md": MAP, "base/text.hpp": "#pragma once\n",
            "graph/graph.hpp": '#include "base/text.hpp"\n',
            "graph/pt2/reader.cpp": '// See tools/writer.py.\n#include "graph/graph.hpp"\n',
            "tools/writer.py": '"""See reader.cpp and graph/pt2/reader.cpp; writes OUT.py."""\n'}

    def run(**files):
        for name, text in (good | files).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
        done = subprocess.run([sys.executable, LAYOUT, tmp_path], capture_output=True, text=True,
                              timeout=60)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    return run


def test_a_tree_in_order_passes(layout):
    assert layout() == (0, [])


def test_a_circle_between_folders_is_shown_with_its_includes(layout):
    assert layout(**{"base/text.hpp": '#include "graph/graph.hpp"\n'}) == (1, [
        "a circle of folders: base -> graph: base/text.hpp includes graph/graph.hpp; "
        "graph/graph.hpp includes base/text.hpp"])


def test_a_circle_between_sub_folders_is_one_too(layout):
    status, lines = layout(**{
        "graph/cuts/cuts.hpp": '#include "graph/pt2/reader.hpp"\n',
        "graph/pt2/reader.hpp": '#include "graph/cuts/cuts.hpp"\n',
        "docs/architecture.md": MAP + "| `graph/cuts/` | where it may be cut |\n"})
    assert status == 1
    assert lines == ["a circle of folders: graph/cuts -> graph/pt2: graph/cuts/cuts.hpp includes "
                     "graph/pt2/reader.hpp; graph/pt2/reader.hpp includes graph/cuts/cuts.hpp"]


def test_a_circle_through_the_parts_of_folders_is_one_too(layout):
    """No two files include one another, nor two folders: base -> graph/pt2, graph -> base."""
    status, lines = layout(**{"base/text.hpp": '#include "graph/pt2/reader.hpp"\n',
                              "graph/pt2/reader.hpp": "#pragma once\n",
                              "graph/pt2/reader.cpp": "\n"})
    assert status == 1
    assert lines == ["a circle of folders: base -> graph: base/text.hpp includes "
                     "graph/pt2/reader.hpp; graph/graph.hpp includes base/text.hpp"]


@pytest.mark.parametrize("line", ["#include <torch/torch.h>", "#include <ATen/ATen.h>",
                                  '#include "c10/util/Half.h"'])
def test_only_the_backend_includes_libtorch(layout, line):
    assert layout(**{"base/text.hpp": f"{line}\n"}) == (
        1, ["base/text.hpp: includes LibTorch, which only backend/ may"])
    described = MAP + "| `backend/` | runs it |\n"
    assert layout(**{"backend/device.hpp": f"{line}\n", "docs/architecture.md": described}) == (
        0, [])


def test_a_crowded_folder_is_told_with_headers_and_sources_counted_once(layout):
    files = {f"base/text{i}{kind}": "" for i in range(15) for kind in (".hpp", ".cpp")}
    assert layout(**files) == (0, [])
    assert layout(**files, **{"base/more.cpp": ""}) == (
        1, ["base/: has 17 files, at most 16 make a folder one idea"])


def test_a_folder_that_the_map_of_the_code_lacks_is_told(layout):
    assert layout(**{"planner/plan.cpp": ""}) == (
        1, ["planner/: docs/architecture.md does not say what it is"])


@pytest.mark.parametrize("name, text", [
    ("base/text.hpp", "/// As lost.cpp says.\n"),
    ("tools/other.py", '"""As lost.cpp says."""\n'),
    ("tools/other.py", "x = 1  # lost.cpp says why\n"),
    ("tools/run", "# lost.cpp says why\n"),
    ("docs/guide.md", "See `base/lost.cpp`.\n"),
])
def test_a_file_that_is_named_and_not_there_is_told(layout, name, text):
    lost = "base/lost.cpp" if "base/lost" in text else "lost.cpp"
    assert layout(**{name: text}) == (1, [f"{name}: names {lost}, which is not there"])
    assert layout(**{name: text, "base/lost.cpp": ""}) == (0, [])


def test_strings_of_python_name_what_they_like(layout):
    assert layout(**{"tools/other.py": 'TEXT = """\n# lost.cpp\n"""\n'}) == (0, [])


def test_a_long_line_of_code_is_told(layout):
    assert layout(**{"tools/other.py": "x = 1\n" + "y" * 101, "docs/guide.md": "long " * 50}) == (
        1, ["tools/other.py:2: has 101 columns, 100 are the most"])
    assert layout(**{"tools/other.py": "y" * 100}) == (0, [])
