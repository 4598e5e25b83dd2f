"""bench-simulate measures the same work in every simulator. How long it takes is not tested."""

import json
import os
import subprocess
from pathlib import Path

import pytest

BENCH = Path(os.environ.get("PENSTOCK_BUILD",
                            Path(__file__).parents[2] / "build")) / "bench-simulate"


def bench(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def rows():
    done = bench("--json", "--only", "1f1b P=8 M=512", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    machine, *rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["links"] for row in rows] == ["eager", "posted", "shared", "eager",
                                              "eager"], done.stdout
    assert machine["cores"] >= 1 and machine["date"]
    assert rows[2]["makespan_s"] > rows[1]["makespan_s"] == rows[0]["makespan_s"]
    return {row["simulator"].split()[0]: row for row in rows if row["links"] == "eager"}


def test_every_simulator_has_a_row_with_numbers_or_says_why_not(rows):
    assert set(rows) == {"penstock", "SimGrid", "torch"}
    for row in rows.values():
        assert row.get("skipped") or row["median_s"] > 0 and row["cpu_s"] > 0


@pytest.mark.parametrize("simulator", ["penstock", "SimGrid", "torch"])
def test_the_work_is_4096_forwards_and_backwards_and_3584_messages_each_way(rows, simulator):
    if "skipped" in rows[simulator]:
        pytest.skip(rows[simulator]["skipped"])
    assert rows[simulator]["tasks"] == 2 * (8 * 512 + 7 * 512)


def test_makespans_agree_to_six_decimals(rows):
    if "skipped" in rows["SimGrid"]:
        pytest.skip(rows["SimGrid"]["skipped"])
    assert rows["penstock"]["makespan_s"] == pytest.approx(rows["SimGrid"]["makespan_s"],
                                                           abs=0.5e-6)


def test_a_python_without_torch_is_a_visible_skip():
    done = bench("--only", "torch", "--python", "/nowhere/python")
    assert done.returncode == 0
    assert "skipped: /nowhere/python could not run bench/torch_simulate.py" in done.stdout


def test_an_unknown_option_is_refused():
    done = bench("--fast")
    assert done.returncode == 2 and "--fast" in done.stderr
