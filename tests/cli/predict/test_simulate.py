"""penstock simulate: worked values, and what it prints and writes."""

import json
import os
import subprocess

import pytest

from simulating import HALVES, PENSTOCK, STUDY, TIMES, refused, run, simulated


@pytest.mark.parametrize("ranks, microbatches, makespan_s", [
    (8, 512, "2.147200"), (8, 4096, "16.976000"), (64, 512, "2.460800"), (64, 4096, "17.799200")])
def test_the_worked_values_of_1f1b_to_six_decimals(ranks, microbatches, makespan_s):
    result = simulated("--schedule", "1f1b", "--ranks", ranks, "--microbatches", microbatches,
                       *TIMES,
                       "--message", "16MB", "--bandwidth", "25GB/s", "--latency", "10us")
    assert f"{result['makespan_s']:.6f}" == makespan_s


def test_the_json_has_every_promised_member():
    result = simulated(*STUDY, *TIMES, "--saved", "64MB")
    assert result["makespan_s"] == pytest.approx(33e-3, rel=1e-12)  # (8 + 4 - 1) steps of 3 ms
    assert result["bubble"] == pytest.approx(3 / 11, rel=1e-12)
    assert result["rank_start_s"] == pytest.approx([0, 1e-3, 2e-3, 3e-3], rel=1e-12)
    assert result["rank_end_s"] == pytest.approx([33e-3, 31e-3, 29e-3, 27e-3], rel=1e-12)
    assert result["peak_activations"] == [4, 3, 2, 1]
    assert result["peak_memory_bytes"] == [256_000_000, 192_000_000, 128_000_000, 64_000_000]
    assert result["ranks"] == 4
    # 4 x 8 forwards and backwards; each of 3 cuts is crossed 8 times each way by a SEND and a RECV.
    assert result["actions"] == 4 * 8 * 2 + 3 * 8 * 2 * 2
    assert result["elapsed_s"] > 0
    assert result["limiting_rank"] == 3
    for rank in result["idle"]:  # nothing but the ramp: (P - 1)(F + B)
        assert rank.pop("ramp_s") == pytest.approx(9e-3, rel=1e-12)
        assert list(rank.values()) == [0, 0, 0, 0, 0]
    path = result["critical_path"]
    assert path["compute_s"] == pytest.approx(33e-3, rel=1e-12)
    assert path["transfer_s"] + path["reduce_s"] + path["launch_s"] + path["wait_s"] == 0
    assert sum(path["rank_s"]) == pytest.approx(33e-3, rel=1e-12)
    assert [rank["saved_bytes"] for rank in result["peak_memory"]] == result["peak_memory_bytes"]
    assert "step_s" not in result  # of a plan only


def test_gpipe_holds_every_microbatch():
    assert simulated("--schedule", "gpipe", "--ranks", 2, "--microbatches", 6,
                     *TIMES)["peak_activations"] == [6, 6]


def test_two_runs_print_the_same_but_for_the_time_they_took():
    first, second = (simulated(*STUDY, *TIMES) for _ in range(2))
    first.pop("elapsed_s"), second.pop("elapsed_s")
    assert first == second


def test_the_halves_of_a_backward_make_a_whole_one():
    assert simulated(*STUDY, *HALVES)["makespan_s"] == simulated(*STUDY, *TIMES)["makespan_s"]


def test_people_see_a_summary_and_the_grid():
    done = run("--schedule", "1f1b", "--ranks", 2, "--microbatches", 2, *TIMES, "--width", 18)
    assert done.returncode == 0
    assert "1f1b: 2 ranks, 2 stages, 2 microbatches" in done.stdout
    assert "9.00 ms" in done.stdout and "33.3 %" in done.stdout
    assert "rank 0 |F0F1..B0----B1----|" not in done.stdout  # F1 runs beside F0 of the other rank
    assert "rank 0 |F0F1....B0--..B1--|" in done.stdout
    assert "rank 1 |..F0B0--F1B1--....|" in done.stdout
    assert "\x1b" not in done.stdout  # colours are for terminals


def test_people_see_where_the_bubble_comes_from_and_which_rank_limits():
    done = run(*STUDY, *TIMES, "--message", "16MB", "--bandwidth", "100GB/s", "--latency", "40us")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:6] if line)
    # The path goes down and up again and again, so each rank has a quarter of its 33 ms or so.
    assert lines["limits"] == "rank 1, longest on the critical path with 9.00 ms"
    bubble, parts = lines["bubble"].split(": ")
    shares = dict(part.split(" ", 1) for part in parts.split(", "))
    assert list(shares) == ["ramp", "transfers"]
    # Each of three numbers is rounded to 0.1.
    assert sum(float(share.split()[0]) for share in shares.values()) == pytest.approx(
        float(bubble.split()[0]), abs=0.15 + 1e-9)


def test_people_see_what_a_memory_peak_is_made_of_where_it_is_more_than_one_thing():
    split = ["--schedule", "zb-h1", "--ranks", 2, "--microbatches", 4, *HALVES]
    assert "peak memory" not in run(*split).stdout
    assert "activations" not in run(*split, "--saved", "64MiB").stdout
    text = run(*split, "--saved", "64MiB", "--saved-weight", "32MiB").stdout
    assert "activations" in text and "kept for W" in text


def test_a_program_that_takes_seconds_to_explain_is_not_explained_and_says_so():
    done = run("--schedule", "gpipe", "--ranks", 64, "--microbatches", 2700, *TIMES)
    assert done.returncode == 0 and "not worked out for more than 1000000 actions" in done.stdout
    assert "limiting_rank" not in simulated("--schedule", "gpipe", "--ranks", 64,
                                            "--microbatches", 2700, *TIMES)


def terminal_output(env):
    """Standard output of a run whose standard output is a terminal."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    command = [str(PENSTOCK), "simulate", *map(str, STUDY), *TIMES]
    try:
        process = subprocess.Popen(command, stdout=follower, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "TERM": "xterm", **env})
    finally:
        os.close(follower)
    text = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    os.close(leader)
    assert process.wait(timeout=60) == 0
    return text.decode()


def test_a_terminal_gets_colours_unless_NO_COLOR_is_set():
    assert "\x1b[" in terminal_output({"NO_COLOR": ""})
    assert "\x1b[" not in terminal_output({"NO_COLOR": "1"})


def test_a_program_file_runs_as_the_schedule_it_lists(tmp_path):
    path = tmp_path / "program.csv"
    path.write_text("0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n")
    result = simulated("--program", path, *TIMES)
    assert result["ranks"] == 2
    assert result["makespan_s"] == pytest.approx(9e-3, rel=1e-12)


def test_a_program_with_transfers_is_taken_as_written(tmp_path):
    path = tmp_path / "program.csv"
    path.write_text("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n")
    result = simulated("--program", path, *TIMES, "--latency", "1ms")
    assert result["makespan_s"] == pytest.approx(8e-3, rel=1e-12)
    assert result["actions"] == 8


def test_a_program_that_lacks_a_transfer_is_refused(tmp_path):
    path = tmp_path / "program.csv"
    path.write_text("0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n")
    message = refused("--program", path, *TIMES)
    assert str(path) in message and "RECV_B" in message


def test_a_program_that_deadlocks_is_refused_naming_the_ranks(tmp_path):
    path = tmp_path / "program.csv"
    path.write_text("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
    message = refused("--program", path, *TIMES)
    assert str(path) in message and "deadlock" in message
    assert "rank 0" in message and "rank 1" in message


def test_exceeding_the_memory_is_a_warning_that_says_by_how_much():
    done = run(*STUDY, *TIMES, "--saved", "64MiB", "--memory", "192MiB", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["peak_memory_bytes"][0] == 256 << 20
    assert "192 MiB" in done.stderr and "rank 0 needs 256 MiB, 64.0 MiB more" in done.stderr
    assert "rank 1" not in done.stderr


def test_the_trace_opens_in_a_browser_and_holds_every_event(tmp_path):
    path = tmp_path / "trace.json"
    result = simulated(*STUDY, *TIMES, "--trace", path)
    trace = json.loads(path.read_text())
    assert len(trace["penstock"]["events"]) == result["actions"]
    assert {"0F0", "3B7"} <= {event["name"] for event in trace["traceEvents"]}


def test_a_page_that_no_browser_could_show_is_refused_before_anything_is_written(tmp_path):
    done = run("--schedule", "1f1b", "--ranks", 64, "--microbatches", 4096, *TIMES,
               "--html", tmp_path / "big.html", "--trace", tmp_path / "big.json")
    assert done.returncode == 2 and "--html" in done.stderr and "fewer microbatches" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_same_simulation_gives_the_same_page(tmp_path):
    for name in ("first.html", "second.html"):
        assert run(*STUDY, *TIMES, "--html", tmp_path / name).returncode == 0
    assert (tmp_path / "first.html").read_bytes() == (tmp_path / "second.html").read_bytes()
