"""penstock compare: where two timelines of one plan differ."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"


def run(*arguments):
    return subprocess.run([str(PENSTOCK), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


def trace(path, *more, ranks=2, forward="1ms", backward="2ms"):
    done = run("simulate", "--schedule", "gpipe", "--ranks", ranks, "--microbatches", 2,
               "--forward", forward, "--backward", backward, "--message", "1MB", "--trace", path,
               "--json", *more)
    assert done.returncode == 0, done.stderr
    return path


def test_the_error_is_told_by_step_action_rank_and_transfer(tmp_path):
    predicted = trace(tmp_path / "predicted.json")
    actual = trace(tmp_path / "actual.json", "--latency", "1ms", forward="1.5ms")
    before = sorted(tmp_path.iterdir())
    done = run("compare", predicted, actual)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    # GPipe, two microbatches: (2 + 1)(F + B), and two transfers of 1 ms more: 9 ms and 12.5 ms.
    assert "step predicted 9.00 ms, measured 12.5 ms: -28.0 %" in " ".join(lines[0])
    assert ["F", "4", "1.00", "ms", "1.50", "ms", "-33.3", "%", "-1.00", "ms"] in lines
    assert ["B", "4", "2.00", "ms", "2.00", "ms", "+0.0", "%", "0", "s"] in lines
    # Each rank: 2 F and 2 B.
    assert ["0", "6.00", "ms", "7.00", "ms", "-14.3", "%", "3.00", "ms", "5.50", "ms"] in lines
    transfers = [line for line in lines if line[1:2] == ["to"]]
    assert [line[:4] for line in transfers] == [["0", "to", "1", "activations"],
                                                ["1", "to", "0", "gradients"]]
    assert sorted(tmp_path.iterdir()) == before  # nothing is written


def test_errors_by_cause_add_up_to_the_error_of_the_step(tmp_path):
    predicted = trace(tmp_path / "predicted.json")
    actual = trace(tmp_path / "actual.json", "--latency", "1ms", forward="1.5ms")
    lines = run("compare", predicted, actual).stdout.split("Errors by cause")[1].splitlines()
    # By hand: rank 1 waits until the first F is done on rank 0 (1 and 1.5 ms) and after its last B
    # until that of rank 0 is (2 ms, and what a message takes); a message on its way keeps rank 1
    # for 1 ms at first and, sent by it, at last, and rank 0 once.
    rows = [line.split() for line in lines if line.strip()[:1] in ("0", "1", "m")]
    assert rows[:2] == [
        ("0 -1.00 ms -8.0 % -1.50 ms -12.0 % -1.00 ms -8.0 % 0 s +0.0 % 0 s +0.0 % "
         "-3.50 ms -28.0 %").split(),
        ("1 -1.00 ms -8.0 % -500 us -4.0 % -2.00 ms -16.0 % 0 s +0.0 % 0 s +0.0 % "
         "-3.50 ms -28.0 %").split()]
    assert rows[2] == ("mean -1.00 ms -8.0 % -1.00 ms -8.0 % -1.50 ms -12.0 % 0 s +0.0 % "
                       "0 s +0.0 % -3.50 ms -28.0 %").split()


def test_the_same_as_json(tmp_path):
    predicted = trace(tmp_path / "predicted.json")
    actual = trace(tmp_path / "actual.json", "--latency", "1ms", forward="1.5ms")
    found = json.loads(run("compare", predicted, actual, "--json").stdout)
    assert found["step_s"] == pytest.approx({"predicted": 0.009, "measured": 0.0125})
    nothing = {"reduction_s": 0, "optimizer_s": 0}
    assert [rank["error"] for rank in found["ranks"]] == [
        pytest.approx({"compute_s": -0.001, "waiting_s": waiting_s, "transfers_s": transfers_s}
                      | nothing) for waiting_s, transfers_s in ((-0.0015, -0.001),
                                                                (-0.0005, -0.002))]
    for rank in found["ranks"]:
        assert rank["predicted"]["compute_s"] == pytest.approx(0.006)
        assert sum(rank["measured"].values()) == pytest.approx(0.0125)


@pytest.mark.parametrize("page", ["missing/out.html", "."])
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_printed(tmp_path, page):
    predicted = trace(tmp_path / "predicted.json")
    done = run("compare", predicted, predicted, "--html", tmp_path / page)
    assert done.returncode == 2 and done.stdout == ""
    assert sorted(tmp_path.iterdir()) == [predicted]


def test_a_page_is_written_beside_the_same_text(tmp_path):
    predicted = trace(tmp_path / "predicted.json")
    page = tmp_path / "out.html"
    without = run("compare", predicted, predicted)
    done = run("compare", predicted, predicted, "--html", page)
    assert done.returncode == 0 and done.stdout.startswith(without.stdout)
    assert done.stdout.endswith(f"\nwritten    {page}\n")
    assert "<!doctype html>" in page.read_text()


def test_a_timeline_agrees_with_itself(tmp_path):
    predicted = trace(tmp_path / "predicted.json")
    done = run("compare", predicted, predicted)
    assert done.returncode == 0
    assert "+0.0 %" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("content, text", [
    (None, "No such file"), ("", "is empty"), ("{}", "penstock"),
    ('{"traceEvents": []}', "penstock"), ("[1, 2", "JSON")])
def test_what_is_no_trace_is_refused(tmp_path, content, text):
    predicted = trace(tmp_path / "predicted.json")
    foreign = tmp_path / "foreign.json"
    if content is not None:
        foreign.write_text(content)
    for pair in [(predicted, foreign), (foreign, predicted)]:
        done = run("compare", *pair)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "foreign.json" in done.stderr and text in done.stderr


def test_traces_of_different_plans_are_refused(tmp_path):
    done = run("compare", trace(tmp_path / "two.json"), trace(tmp_path / "three.json", ranks=3))
    assert done.returncode == 2
    assert "never runs" in done.stderr and "same plan" in done.stderr


def test_traces_in_the_wrong_order_are_refused(tmp_path):
    predicted, actual = trace(tmp_path / "predicted.json"), trace(tmp_path / "actual.json")
    executed = json.loads(actual.read_text())
    executed["penstock"]["measured"] = True  # as `execute` writes
    actual.write_text(json.dumps(executed))
    assert run("compare", predicted, actual).returncode == 0
    assert run("compare", actual, actual).returncode == 0  # two steps that were executed
    done = run("compare", actual, predicted)
    assert done.returncode == 2 and done.stdout == ""
    assert f"Give the prediction first: penstock compare {predicted} {actual}" in done.stderr


def test_each_replica_is_compared_with_the_prediction_of_one(tmp_path):
    predicted = trace(tmp_path / "predicted.json")
    actual = json.loads(trace(tmp_path / "actual.json", forward="1.5ms").read_text())
    events = actual["penstock"]["events"]
    events += [[rank + 2, *event] for rank, *event in events]
    (tmp_path / "actual.json").write_text(json.dumps(actual))
    done = run("compare", predicted, tmp_path / "actual.json", "--html", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    busy = [line.split() for line in done.stdout.split("Ranks")[1].splitlines()]
    one = "6.00 ms 7.00 ms -14.3 %".split()
    assert [row[1:7] for row in busy if row[:1] in (["0"], ["1"], ["2"], ["3"])][:4] == [one] * 4
    assert ["F", "8", "1.00", "ms", "1.50", "ms"] in [
        line.split()[:6] for line in done.stdout.splitlines()]
