"""penstock profile: two workers measure together, mistakes end with one message, nothing half-done
stays."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from running import alive, until, workers_of

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))
ACTIONS = ["forward", "backward", "backward_input", "backward_weight"]

pytestmark = pytest.mark.skipif(not (BUILD / "penstock-worker").exists(),
                                reason="penstock-worker is not built: it needs LibTorch")


def model(name):
    path = MODELS / f"{name}.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    return path


def write_job(folder, name="pippy", loss="cross_entropy", batch=4, model_path=None):
    path = folder / "job.yaml"
    path.write_text(f"penstock: job\nmodel: {model_path or model(name)}\nloss: {loss}\n"
                    f"optimizer: {{kind: sgd, learning_rate: 0.1}}\nglobal_batch: {batch}\n")
    return path


def arguments(folder, job, *more):
    return [PENSTOCK, "profile", job, "-o", folder / "profile.json", *more]


def run(folder, job, *more):
    return subprocess.run(list(map(str, arguments(folder, job, *more))), capture_output=True,
                          text=True,
                          timeout=300)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One profile of two ranks for the tests that only look at it."""
    folder = tmp_path_factory.mktemp("profile")
    result = run(folder, write_job(folder, "transformer-text"), "--ranks", "2", "--verbose")
    assert result.returncode == 0, result.stderr
    return folder, result, json.loads((folder / "profile.json").read_text())


def test_leaves_the_profile_and_nothing_else(measured):
    assert names(measured[0]) == ["job.yaml", "profile.json"]


def test_measures_every_divisor_of_the_batch(measured):
    assert [size["microbatch"] for size in measured[2]["microbatches"]] == [1, 2, 4]


def test_knows_the_cores_that_its_ranks_have_together(measured):
    cores = len(os.sched_getaffinity(0))
    device = measured[2]["device"]
    assert (device["cores"], device["threads"]) == (cores, max(1, cores // 2))


def test_operators_add_up_to_their_unit(measured):
    for size in measured[2]["microbatches"]:
        for unit in size["units"]:
            own = size["operators"][unit["begin"]:unit["end"]]
            for action in ACTIONS:
                whole = unit["times"][action]["mean_s"]
                # Sums of fewer than 1000 doubles, each rounded by at most 2^-53.
                parts = sum(op["times"][action]["mean_s"] for op in own)
                assert parts == pytest.approx(whole, rel=1e-12)
            for action in ACTIONS:
                assert (sum(op["held_bytes"][action]["net"] for op in own)
                        == unit["held_bytes"][action]["net"])


def test_measures_the_link_between_the_ranks(measured):
    links = measured[2]["links"]
    assert [link["kind"] for link in links] == ["local", "local-sum"]
    for link in links:
        assert link["latency_s"] > 0 or link["bandwidth_bytes_per_s"] > 0
        sizes = [sample["bytes"] for sample in link["samples"]]
        assert sizes == sorted(sizes) and sizes[0] <= 16 and sizes[-1] >= 2**18
        assert all(sample["seconds"] > 0 for sample in link["samples"])


def test_prints_the_most_expensive_operators(measured):
    text = measured[1].stdout
    assert "most expensive of" in text and "aten::linear" in text
    assert "probe" in text and "link       local: " in text
    assert f"written    {measured[0] / 'profile.json'}\n" in text
    assert f"next       penstock plan {measured[0] / 'profile.json'} --ranks 2 -o" in text
    assert measured[1].stderr == ""  # progress is drawn on a terminal alone


def test_a_quick_profile_says_so_and_a_plan_from_it_too(tmp_path):
    done = run(tmp_path, write_job(tmp_path), "--quick")
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "profile.json").read_text())
    assert profile["device"]["details"]["quick"] == "yes"
    fewest = min(unit["times"]["forward"]["repetitions"]
                 for size in profile["microbatches"] for unit in size["units"])
    note = f"costs      quick: of few microbatch sizes, and times of as few as {fewest} repetition"
    assert "most expensive" not in done.stdout  # --verbose
    assert note in done.stdout and "least sure are spreads, single operators" in done.stdout
    planned = subprocess.run([PENSTOCK, "plan", tmp_path / "profile.json", "-o",
                              tmp_path / "plan.yaml"], capture_output=True, text=True)
    assert planned.returncode == 0 and "costs      quick: " in planned.stdout, planned.stderr


def test_without_time_only_the_smallest_sizes_are_measured_and_the_others_named(tmp_path):
    done = run(tmp_path, write_job(tmp_path, batch=12), "--budget", "0s")
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "profile.json").read_text())
    assert [size["microbatch"] for size in profile["microbatches"]] == [1, 2, 3, 4]
    assert ("to end within 0 s and 27 training steps (--budget TIME sets the seconds): "
            "microbatch 6, 12") in done.stderr


@pytest.mark.parametrize("more", [["--quick"], ["--budget", "1min"]])
def test_an_estimate_measures_nothing_that_could_be_quick(tmp_path, more):
    done = run(tmp_path, write_job(tmp_path), "--device", "estimate", *more)
    assert done.returncode == 2
    assert more[0] in done.stderr and "Leave it out" in done.stderr


def test_one_rank_has_no_link(tmp_path):
    result = run(tmp_path, write_job(tmp_path, batch=1), "--ranks", "1")
    assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "profile.json").read_text())["links"] == []


def refused(folder, result, *parts):
    assert result.returncode == 2, result.stderr
    for part in parts:
        assert part in result.stderr
    assert names(folder) == sorted({"job.yaml"} & set(names(folder)))


def test_refuses_a_job_that_is_not_there(tmp_path):
    refused(tmp_path, run(tmp_path, tmp_path / "none.yaml"), "none.yaml")


def test_refuses_an_unknown_key(tmp_path):
    job = write_job(tmp_path)
    job.write_text(job.read_text() + "learning: 3\n")
    refused(tmp_path, run(tmp_path, job), "learning")


def test_refuses_a_model_that_is_not_there(tmp_path):
    refused(tmp_path, run(tmp_path, write_job(tmp_path, model_path=tmp_path / "none.pt2")),
            "none.pt2")


def test_refuses_data_that_does_not_fit(tmp_path):
    job = write_job(tmp_path)
    job.write_text(job.read_text() + f"data: [{job}]\nsequence: 4\n")
    refused(tmp_path, run(tmp_path, job), "input")


@pytest.mark.parametrize("more", [["--ranks", "0"], ["--device", "quantum"]])
def test_refuses_flags(tmp_path, more):
    refused(tmp_path, run(tmp_path, write_job(tmp_path), *more), more[0])


def test_refuses_a_folder_that_is_not_there(tmp_path):
    job = write_job(tmp_path)
    result = subprocess.run([str(PENSTOCK), "profile", str(job),
                             "-o", str(tmp_path / "none" / "p.json")], capture_output=True,
                            text=True, timeout=60)
    refused(tmp_path, result, "none")


def start(folder, batch=64):
    """A profile that takes a while, once its first microbatch size is measured."""
    job = write_job(folder, "transformer-f32", batch=batch)
    process = subprocess.Popen(list(map(str, arguments(folder, job, "--ranks", "2"))),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: (folder / "profile.json.partial").exists() or process.poll() is not None,
          "no microbatch size is measured")
    assert process.poll() is None, process.stderr.read()
    return process


def test_a_killed_worker_ends_all(tmp_path):
    process = start(tmp_path)
    workers = workers_of(process)
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "rank 1" in errors and "SIGKILL" in errors
    assert not any(alive(worker) for worker in workers)
    assert not (tmp_path / "profile.json").exists()


def test_goes_on_after_an_interruption(tmp_path):
    process = start(tmp_path)
    workers = workers_of(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert not any(alive(worker) for worker in workers)
    assert names(tmp_path) == ["job.yaml", "profile.json.partial"]
    assert "partial" in errors
    before = json.loads((tmp_path / "profile.json.partial").read_text())["microbatches"]
    result = run(tmp_path, tmp_path / "job.yaml", "--ranks", "2")
    assert result.returncode == 0, result.stderr
    after = json.loads((tmp_path / "profile.json").read_text())["microbatches"]
    assert [size["microbatch"] for size in after] == [1, 2, 4, 8, 16, 32, 64]
    assert after[:len(before)] == before  # to the last digit: not measured again
    assert names(tmp_path) == ["job.yaml", "profile.json"]
