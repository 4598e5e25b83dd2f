"""simgrid-pipeline and `penstock simulate` give the same makespan for the same CSV and for the same
schedule."""

import json
import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("PENSTOCK_BUILD", Path(__file__).parents[2] / "build"))
SIMGRID = BUILD / "tests" / "simgrid" / "simgrid-pipeline"

pytestmark = pytest.mark.skipif(not SIMGRID.exists(),
                                reason="built without SimGrid (libsimgrid-dev)")


def output(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          check=True).stdout


def penstock_s(*arguments):
    return json.loads(output(BUILD / "penstock", "simulate", *arguments, "--forward", "3ms",
                             "--backward-input", "4ms", "--backward-weight", "2ms",
                             "--message", "5MB", "--bandwidth", "1GB/s",
                             "--latency", "20us", "--json"))["makespan_s"]


def simgrid_s(*arguments):
    return float(output(SIMGRID, *arguments, "forward=3e-3", "backward-input=4e-3",
                        "backward-weight=2e-3", "backward=6e-3", "message=5e6", "bandwidth=1e9",
                        "latency=20e-6"))


@pytest.mark.parametrize("schedule,ranks,stages,microbatches",
                         [("1f1b", 4, 1, 10), ("zbv", 3, 2, 7)])
def test_a_csv_file_and_its_schedule_take_as_long_in_both(
        tmp_path, schedule, ranks, stages, microbatches):
    csv = tmp_path / "program.csv"
    csv.write_text(output(BUILD / "tests" / "pipeline" / "print-schedule", schedule, ranks, stages,
                          microbatches, "lowered"))
    ours = penstock_s("--program", csv)
    assert ours > 0.05
    assert simgrid_s(f"program={csv}") == pytest.approx(ours, rel=1e-9)
    assert simgrid_s(f"schedule={schedule}", f"ranks={ranks}", f"stages={stages}",
                     f"microbatches={microbatches}") == pytest.approx(ours, rel=1e-9)


def test_a_shared_card_makes_a_slow_network_slower():
    slow = ("ranks=4", "microbatches=8", "ranks-per-node=2")
    assert simgrid_s(*slow, "card-out=4e8", "card-in=4e8") > simgrid_s(*slow)


def test_an_unknown_key_is_refused():
    done = subprocess.run([SIMGRID, "rank=4"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "`rank=4`" in done.stderr
