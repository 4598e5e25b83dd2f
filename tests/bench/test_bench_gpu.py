"""The bench of a GPU works; what it measures needs one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))


@pytest.mark.skipif(not (BUILD / "penstock-worker").exists(), reason="penstock-worker is not built: no LibTorch")
def test_it_measures_a_tiny_model_on_the_cpu_and_replaces_only_its_part_of_the_page(tmp_path):
    page = tmp_path / "gpu.md"
    shutil.copy(ROOT / "docs" / "gpu.md", page)
    begin, end = "begin -->", "<!-- end -->"
    parts = lambda text: (text[:text.index(begin)], text[text.index(begin):text.index(end)], text[text.index(end):])
    before = parts(page.read_text())
    done = subprocess.run([sys.executable, ROOT / "bench" / "gpu.py", "--device", "cpu", "--small", "--steps", "5",
                           "--write", page], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    after = parts(page.read_text())
    assert (before[0], before[2]) == (after[0], after[2])
    assert done.stdout.strip() in after[1]
    rows = [line.split("|") for line in after[1].splitlines() if line.startswith("|")]
    sizes = [row[1].strip() for row in rows if row[1].strip().isdigit()]
    assert sizes[:5] == ["1", "2", "4", "8", "1"] and len(sizes) == 6
    assert all(row[5].strip().endswith(" %") and row[8].strip().endswith(" %") for row in rows[-2:])
