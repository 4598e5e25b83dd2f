"""bench-planner is at least as good as the planners whose inputs it reads, under their objectives.

The published inputs are not part of this repository: PENSTOCK_PEER_DATA names the folder, else
shared/peer-data beside the checkout. How long a file takes is not tested."""

import json
import os
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build")) / "bench-planner"
PEERS = Path(os.environ.get("PENSTOCK_PEER_DATA", ROOT.parent / "shared" / "peer-data"))

FILES = [
    "pipedream/alexnet.graph.txt", "pipedream/resnet50.graph.txt", "pipedream/vgg16.graph.txt",
    "dapple/bert-48-pbs-2.txt", "dapple/vgg-19-pbs-32.txt",
    "dnn-partitioning/bert24_inference.json", "dnn-partitioning/bert24_training.json",
    "dnn-partitioning/gnmt_inference.json", "dnn-partitioning/gnmt_training.json",
    "dnn-partitioning/resnet50_inference.json", "dnn-partitioning/resnet50_training.json",
    "piper/bert32a100.json",
]

LAYERS = """\
a -- Input0 -- forward_compute_time=0.0, backward_compute_time=0.0, \
activation_size=0, parameter_size=0
b -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, \
activation_size=[500.0; 500.0], parameter_size=0
c -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, \
activation_size=1000, parameter_size=0
\ta -- b
\tb -- c
"""
PLACEMENT = {
    "maxFPGAs": 2, "maxCPUs": 0, "maxSizePerFPGA": 10,
    "nodes": [{"id": i, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3 - i,
               "isBackwardNode": 0} for i in range(2)],
    "edges": [{"sourceId": 0, "destId": 1, "cost": 0.5}],
}
PIPER = {
    "maxDevices": 2, "maxMemoryPerDevice": 10, "bandwidth": 4, "mbsInBatch": 4,
    "nodes": [{"id": 0, "TMPCs": {"1": [
        {"id": "vanilla", "timePerSample": 3, "parameterSize": 0, "memoryUsageA": 1,
         "memoryUsageB": 1, "syncTimeFw": {}, "syncTimeBw": {}}]}}],
    "edges": [],
}


def bench(*arguments):
    command = [str(BENCH), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def solved(*arguments):
    done = bench(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(*arguments):
    """The message, after checking that nothing else was said."""
    done = bench(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path
    return write


def half_a_digit(row):
    """What rounding to the digits that were printed can have taken or added. (None of them ends in
    a zero, which JSON would lose.)"""
    return 0.5 * 10.0 ** Decimal(str(row["published"])).as_tuple().exponent


@pytest.mark.parametrize("name", FILES)
def test_is_as_good_as_the_published_value(name):
    if not (PEERS / name).is_file():
        pytest.skip(f"{PEERS / name} is not there; set PENSTOCK_PEER_DATA")
    rows = solved(PEERS / name)
    assert len(rows) == (4 if "piper" in name else 1)
    for row in rows:
        assert row["exact"]
        if row["larger_is_better"]:
            assert row["value"] >= row["published"] - half_a_digit(row)
        else:
            assert row["value"] <= row["published"] + half_a_digit(row)


def test_the_exact_max_load_is_the_published_one():
    """Both are optima of the same space, so neither can be better."""
    names = [name for name in FILES if name.startswith("dnn-partitioning")]
    if not all((PEERS / name).is_file() for name in names):
        pytest.skip(f"{PEERS} is not there; set PENSTOCK_PEER_DATA")
    rows = solved(*[PEERS / name for name in names])
    assert len(rows) == 6
    for row in rows:
        assert abs(row["value"] - row["published"]) <= half_a_digit(row)


def test_every_format_is_recognised_and_solved(written):
    files = [written("graph.txt", LAYERS), written("placement.json", PLACEMENT),
             written("piper.json", PIPER)]
    layers, placement, piper = solved(*files)
    assert [row["file"] for row in (layers, placement, piper)] == list(map(str, files))
    # Alone on an accelerator, the first takes 3 ms and 0.5 ms for its output; together 5 ms.
    assert placement["value"] == 3.5 and placement["unit"] == "ms"
    assert piper["value"] == 1.5 and piper["plan"] == "2"  # both devices, data parallel
    assert layers["value"] == pytest.approx(6e-3 / 16, rel=1e-15)  # no parameters: all replicate
    for row in (layers, placement, piper):
        assert "published" not in row
        assert row["exact"] and row["elapsed_s"] >= 0


def test_options_change_the_setting(written):
    layers = written("graph.txt", LAYERS)
    # Two workers: either both replicate, or 2 x 1000 bytes at 100 kB/s are on their way 20 ms.
    assert (solved(layers, "--devices", 2, "--bandwidth", "100kB/s")[0]["value"]
            == pytest.approx(3e-3))
    [dapple] = solved(layers, "--profile-batch", 1, "--batch", 8, "--devices", 1)
    assert dapple["objective"].startswith("DAPPLE") and dapple["value"] == pytest.approx(1)
    piper = written("piper.json", PIPER)
    assert solved(piper, "--devices", 1, "--batch", 2)[0]["value"] == 3
    assert solved(piper, "--memory", "1B")[0]["value"] is None
    done = bench(piper, "--memory", "1B")
    assert done.returncode == 0 and "nothing fits" in done.stdout


def test_the_same_input_gives_the_same_plans(written):
    files = [written("graph.txt", LAYERS), written("placement.json", PLACEMENT),
             written("piper.json", PIPER)]

    def without_times():
        return [{key: value for key, value in row.items() if not key.endswith("_s")}
                for row in solved(*files)]
    assert without_times() == without_times()


def test_mistakes_are_told_before_anything_is_solved(written):
    good = written("good.txt", LAYERS)
    assert "missing.txt" in refused(good, "missing.txt")
    assert "broken.json" in refused(good, written("broken.json", "{"))
    assert "maxFPGAs" in refused(good, written("other.json", {}))
    assert "good.txt" in (message := refused(good, "--memory", "1GB")) and "--memory" in message
    assert "circle through b, c" in refused(written("circle.txt", LAYERS + "\tc -- b\n"))
    assert "circle.txt:6: there is no node x" in refused(written("circle.txt",
                                                                 LAYERS + "\tc -- x\n"))


def test_wrong_options_are_refused(written):
    good = written("good.txt", LAYERS)
    assert "--fast" in refused(good, "--fast")
    assert "--devices" in refused(good, "--devices", "0")
    assert "--bandwidth" in refused(good, "--bandwidth", "25GB")
    assert "--bandwidth" in refused(good, "--bandwidth", "0B/s")
    assert "FILE" in refused()
