"""A run that survives ends with the bits of an undisturbed one, whichever rank fails at whichever
action, and redoes one completed step at most."""

import json
import os
import signal
import time

import pytest

from pipelines import (any_device, execute, execute_json, good_plan, load_file, model_path,
                       needs_backend, text_file, torch, vectors, write_plan)
from running import endless_plan, running, wait_until_gone, workers_of
from safetensors.torch import save_file
from surviving import assert_undisturbed, positions, survive, tensors_of, went_on
from trainings import FOUR, MIXED, TWO, mixed_plan, plan_of

pytestmark = needs_backend

ADAMW = {"kind": "adamw", "learning_rate": 0.01, "clip_norm": 1.0}
SGD = {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9}


def test_a_rank_may_be_killed_before_each_action_after_the_last_and_in_a_copy(tmp_path):
    plan = endless_plan(tmp_path, steps=80, optimizer=ADAMW)
    places = [(number % 3, number) for number in range(min(positions(plan)))]
    places += [(rank, place) for rank in range(3) for place in ("end", "copy")]
    faults = [f"{rank} {2 * step} {place} kill" for step, (rank, place) in enumerate(places, 1)]
    assert 20 < len(faults) < 40
    assert_undisturbed(plan, faults)


@any_device
@pytest.mark.parametrize("keys", [{}, {"tensor_parallel": 2}, {"data_parallel": 2}], ids=str)
def test_a_killed_rank_is_replaced(tmp_path, keys):
    plan = good_plan(tmp_path, steps=8, optimizer=ADAMW, **keys)
    assert_undisturbed(plan, ["1 2 5 kill", "0 4 end kill", "1 6 copy kill"])


def test_replicas_survive(tmp_path):
    data = vectors(tmp_path, "image", None, torch.float32, shape=[1, 28, 28])
    plan = write_plan(tmp_path, model_path("image_classifier"), data, ["", "stage1"], 2, 8,
                      steps=8, data_parallel=2, optimizer=ADAMW)
    assert_undisturbed(plan, ["3 2 4 kill", "0 4 end kill", "1 6 copy kill", "2 8 0 throw"])


TIED = "transformer.wte.weight"
KINDS = {
    "tied-bf16": lambda folder: mixed_plan(folder, "gpt2-bf16", TWO, MIXED | {"clip_norm": 0.5},
                                           schedule="zb-h1", shared_parameters={TIED: "transmit"}),
    "replicated": lambda folder: plan_of(folder, "gpt2", FOUR, ADAMW, data_parallel=2,
                                         shared_parameters={TIED: "replicate"}),
    "batch-norm": lambda folder: plan_of(folder, "resnet", ["", "groups.1"], SGD, data_parallel=2),
    "dropout": lambda folder: write_plan(folder, model_path("transformer-dropout"),
                                         text_file(folder), ["", "layers.1"], 4, 4, sequence=16,
                                         steps=6, optimizer=ADAMW, schedule="gpipe"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_state_survives(tmp_path, kind):
    assert_undisturbed(KINDS[kind](tmp_path), ["1 2 5 kill", "0 4 end kill", "1 6 copy kill"])


def test_a_rank_that_only_fails_once_costs_a_step_and_the_same_failure_again_the_run(tmp_path):
    plan = good_plan(tmp_path, steps=6)
    once, _ = survive(plan, faults=["1 3 2 throw"])
    assert once.returncode == 0 and went_on(once.stderr) in ([2], [3])
    twice, happened = survive(plan, faults=["1 3 2 throw"] * 2)
    assert twice.returncode == 1 and len(happened) == 2
    assert "rank 1 failed in step 3" in twice.stderr and "It failed there before." in twice.stderr


def test_a_rank_that_is_killed_again_and_again_in_one_step_ends_the_run(tmp_path):
    done, happened = survive(good_plan(tmp_path, steps=6), faults=["1 3 2 kill"] * 4)
    assert done.returncode == 1 and len(happened) == 3
    assert "third failure without a step in between" in done.stderr


def test_what_would_fail_again_is_not_tried_again(tmp_path):
    plan = good_plan(tmp_path)
    data = load_file(tmp_path / "data.safetensors")
    data["x"][12, 0] = float("inf")  # in step 2
    save_file(data, tmp_path / "data.safetensors")
    done, _ = survive(plan)
    assert done.returncode == 1 and "the loss of step 2 is" in done.stderr
    assert not went_on(done.stderr)


def test_a_run_that_is_not_to_survive_does_not(tmp_path):
    done, happened = survive(good_plan(tmp_path), faults=["1 2 0 kill"], how="off")
    assert done.returncode == 1 and len(happened) == 1 and "rank 1" in done.stderr


def goes_on(process, metrics, patience_s=60):
    """The workers of a run, once they have made steps."""
    def size():
        return metrics.stat().st_size if metrics.exists() else 0

    end, before = time.monotonic() + patience_s, size()
    while time.monotonic() < end and process.poll() is None:
        if size() > before + 1000:
            return workers_of(process)
        time.sleep(0.01)
    raise AssertionError(f"makes no steps, status {process.poll()}")


def test_kills_from_outside_leave_no_process_and_no_descriptor_behind(tmp_path):
    plan, metrics, saved = endless_plan(tmp_path), tmp_path / "m.jsonl", tmp_path / "saved"
    with running(plan, "--survive", "local", "--save", saved, "--metrics", metrics) as process:
        workers = goes_on(process, metrics)
        descriptors = len(os.listdir(f"/proc/{process.pid}/fd"))
        for victim in range(6):
            os.kill(workers[victim % 3], signal.SIGKILL)
            wait_until_gone(workers)
            workers = goes_on(process, metrics)
            assert len(workers) == 3
            assert len(os.listdir(f"/proc/{process.pid}/fd")) == descriptors
        os.kill(workers[0], signal.SIGKILL)
        wait_until_gone(workers)
        process.send_signal(signal.SIGTERM)  # while they begin anew
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM, errors
        assert len(went_on(errors)) == 7
    (checkpoint,) = saved.iterdir()
    step = int(checkpoint.name.removeprefix("step-"))
    steps = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
    assert steps == list(range(1, step + 1))
    execute_json(plan, "--save", tmp_path / "whole", "--steps", step)
    found, expected = tensors_of(checkpoint), tensors_of(tmp_path / "whole" / checkpoint.name)
    assert all(torch.equal(found[key], value) for key, value in expected.items())


def test_a_rank_that_is_stopped_is_replaced(tmp_path):
    plan, metrics = endless_plan(tmp_path), tmp_path / "m.jsonl"
    with running(plan, "--survive", "local", "--metrics", metrics) as process:
        workers = goes_on(process, metrics)
        os.kill(workers[1], signal.SIGSTOP)
        assert next(line for line in process.stderr if "was stopped in step" in line)
        wait_until_gone(workers)
        assert goes_on(process, metrics)


def test_lines_of_metrics_are_there_once(tmp_path):
    plan, metrics = good_plan(tmp_path, steps=5), tmp_path / "m.jsonl"
    done, _ = survive(plan, "--metrics", metrics, faults=["0 2 end kill", "1 4 copy kill"])
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [1, 2, 3, 4,
                                                                                      5]


@pytest.mark.parametrize("flags, words", [
    (["--survive", "peer"], "off, local, peers, auto"),
    (["--survive", "peers"], "copies go to other processes"),
    (["--survive", "local", "--forward-only", "--output", "o.safetensors"], "training")])
def test_what_cannot_survive_is_refused(tmp_path, flags, words):
    done = execute(good_plan(tmp_path), *flags)
    assert done.returncode == 2 and "--survive" in done.stderr and words in done.stderr


@pytest.mark.parametrize("line", ["1 2 3", "1 2 3 burn", "1 2 x kill", "one 2 3 kill"])
def test_a_fault_that_cannot_be_read_is_named(tmp_path, line):
    done, _ = survive(good_plan(tmp_path), faults=["# none", line])
    assert done.returncode == 2 and "faults:2: is no fault: " + line in done.stderr
