"""Sixty faults, and what the bench would say where something is not as it should be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
pytestmark = pytest.mark.long
needs_backend = pytest.mark.skipif(not (BUILD / "penstock-worker").exists(),
                                   reason="penstock-worker is not built: no LibTorch")


def soak(*options, timeout=550):
    return subprocess.run([sys.executable, ROOT / "bench" / "soak.py", *map(str, options)],
                          capture_output=True, text=True, timeout=timeout)


@needs_backend
def test_sixty_faults_change_no_bit_and_leave_nothing_behind(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before <!-- measured by bench/soak.py: begin -->old<!-- end --> after")
    done = soak("--faults", 60, "--seed", 3, "--write", page)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()
            if line.startswith("| ")][1:]
    assert sum(int(times) for _, times, *_ in rows) == 60
    assert {"kill", "throw", "stop", "spin", "SIGKILL from outside"} <= {row[0] for row in rows}
    assert all(int(most) <= 1 for _, _, _, most, *_ in rows)
    assert page.read_text() == ("before <!-- measured by bench/soak.py: begin -->\n"
                                f"{done.stdout.strip()}\n<!-- end --> after")


@needs_backend
def test_a_run_that_is_not_replaced_is_a_problem():
    """It ends at once, for its time is none."""
    done = soak("--faults", 4, "--seed", 3, "--hang-after", "soon")
    assert done.returncode == 1
    assert "is not told" in done.stderr and "PENSTOCK_HANG_AFTER" in done.stderr
