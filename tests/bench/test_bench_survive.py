"""A short run of the bench: its losses are the same with `--survive` and without, or it says so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))


def survive(*options):
    return subprocess.run([sys.executable, ROOT / "bench" / "survive.py", *map(str, options)],
                          capture_output=True, text=True, timeout=550)


@pytest.mark.skipif(not (BUILD / "penstock-worker").exists(),
                    reason="penstock-worker is not built: no LibTorch")
def test_the_bench_tells_what_surviving_costs(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before <!-- measured by bench/survive.py: begin -->old<!-- end --> after")
    done = survive("--repeat", 1, "--steps", 16, "--write", page)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()
            if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == ["none", "after each step"]
    for _, without, surviving, longer, extremes in rows:
        assert float(without) > 0 and float(surviving) > 0
        assert re.fullmatch(r"[+-]\d+\.\d %", longer)
        assert re.fullmatch(r"[+-]\d+\.\d, [+-]\d+\.\d %", extremes)
    assert page.read_text() == ("before <!-- measured by bench/survive.py: begin -->\n"
                                f"{done.stdout.strip()}\n<!-- end --> after")


def test_too_few_steps_are_refused():
    done = survive("--steps", 15)
    assert done.returncode == 2 and "--steps: give 16 to 100" in done.stderr
