"""A run that survives writes its checkpoints from snapshots, without its ranks: the same bytes, at
the same steps, also where ranks are stuck or it cannot go on."""

import os
import signal

import pytest

from pipelines import execute_json, good_plan, load_file, needs_backend
from running import endless_plan, running, wait_until_gone, workers_of
from safetensors.torch import save_file
from surviving import all_hang, fault_list, flip, slots_of, survive, until_they_happened, went_on
from test_survival import ADAMW, KINDS
from trainings import FOUR, plan_of

pytestmark = needs_backend

EACH_STEP = ["--save-every", 1, "--keep", 100]


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes()
            for file in sorted(folder.rglob("*")) if file.is_file()}


def assert_same_folders(one, other):
    one, other = contents(one), contents(other)
    assert list(one) == list(other) and any("stage-1" in name for name in one)
    assert [name for name in one if one[name] != other[name]] == []


TWO_STAGES_A_RANK = {"interleaved": lambda folder: plan_of(
    folder, "gpt2", FOUR, ADAMW, schedule="interleaved-1f1b", ranks=[0, 1, 0, 1],
    shared_parameters={"transformer.wte.weight": "transmit"})}


@pytest.mark.parametrize("make", [pytest.param(make, id=kind) for kind, make in
                                  (KINDS | TWO_STAGES_A_RANK).items()])
def test_checkpoints_have_the_bytes_that_ranks_would_write(tmp_path, make):
    plan = make(tmp_path)
    execute_json(plan, "--save", tmp_path / "ranks", *EACH_STEP)
    done, _ = survive(plan, "--save", tmp_path / "slots", *EACH_STEP)
    assert done.returncode == 0, done.stderr
    assert_same_folders(tmp_path / "ranks", tmp_path / "slots")


def test_checkpoints_of_a_run_that_loses_ranks_are_those_of_an_undisturbed_one(tmp_path):
    plan = endless_plan(tmp_path, steps=24, optimizer=ADAMW)
    execute_json(plan, "--save", tmp_path / "whole", *EACH_STEP)
    faults = ["1 3 5 kill", "0 7 copy kill", "2 10 end kill", "0 14 0 throw", "1 19 end kill",
              "2 25 copy kill"]  # the state that a 25th step would begin with
    done, happened = survive(plan, "--save", tmp_path / "saved", *EACH_STEP, faults=faults)
    assert done.returncode == 0 and len(happened) == len(went_on(done.stderr)) == len(faults)
    assert_same_folders(tmp_path / "whole", tmp_path / "saved")


def test_the_latest_are_kept(tmp_path):
    done, _ = survive(good_plan(tmp_path, steps=7), "--save", tmp_path / "saved", "--save-every", 2,
                      "--keep", 2)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["step-6", "step-7"]


# Runs that end early.


def assert_undisturbed_so_far(tmp_path, plan, step):
    """The only checkpoint is of that step, or of one of these."""
    (checkpoint,) = (tmp_path / "saved").iterdir()
    number = int(checkpoint.name.removeprefix("step-"))
    assert number in step if isinstance(step, range) else number == step
    execute_json(plan, "--save", tmp_path / "whole", "--steps", number)
    assert contents(checkpoint) == contents(tmp_path / "whole" / checkpoint.name)


SPINS_IN = 6


def spinning(tmp_path, plan):
    """A run whose ranks spin in a step, and nobody notices."""
    return running(plan, "--survive", "local", "--save", tmp_path / "saved",
                   PENSTOCK_HANG_AFTER="1h", **fault_list(tmp_path, all_hang(plan, SPINS_IN)))


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGUSR1, signal.SIGTERM]],
                         ids=["once", "twice"])
def test_the_latest_state_is_saved_where_a_rank_does_not_come_to_the_end_of_its_step(tmp_path,
                                                                                     signals):
    plan = endless_plan(tmp_path, optimizer=ADAMW)
    with spinning(tmp_path, plan) as process:
        until_they_happened(tmp_path)
        for number in signals:
            process.send_signal(number)
            if number != signals[-1]:
                assert next(line for line in process.stderr if "ends the step at once" in line)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signals[-1]
    assert ("a step did not end within 5 s" in errors) == (len(signals) == 1)
    assert f"The last checkpoint is {tmp_path}/saved/step-{SPINS_IN - 1}." in errors
    assert_undisturbed_so_far(tmp_path, plan, SPINS_IN - 1)


def test_an_interrupt_saves_nothing(tmp_path):
    with spinning(tmp_path, endless_plan(tmp_path)) as process:
        until_they_happened(tmp_path)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT and "checkpoint" not in errors
    assert not (tmp_path / "saved").exists()


def test_a_signal_saves_where_all_ranks_are_stopped(tmp_path):
    plan = endless_plan(tmp_path, optimizer=ADAMW)
    with running(plan, "--survive", "local", "--save", tmp_path / "saved") as process:
        ranks = workers_of(process)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        wait_until_gone(ranks)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert_undisturbed_so_far(tmp_path, plan, range(1, 100_000))


def test_a_run_that_fails_twice_at_one_action_saves_its_state(tmp_path):
    plan = good_plan(tmp_path, steps=6)
    done, _ = survive(plan, "--save", tmp_path / "saved", faults=["1 4 2 throw"] * 2)
    assert done.returncode == 1 and "It failed there before." in done.stderr
    assert f"The last checkpoint is {tmp_path}/saved/step-" in done.stderr
    assert_undisturbed_so_far(tmp_path, plan, range(2, 4))


def test_a_run_whose_loss_is_not_finite_does_not(tmp_path):
    plan = good_plan(tmp_path)
    data = load_file(tmp_path / "data.safetensors")
    data["x"][12, 0] = float("inf")  # in step 2
    save_file(data, tmp_path / "data.safetensors")
    done, _ = survive(plan, "--save", tmp_path / "saved")
    assert done.returncode == 1 and "the loss of step 2 is" in done.stderr
    assert not (tmp_path / "saved").exists() or not list((tmp_path / "saved").iterdir())


def test_a_damaged_snapshot_is_no_checkpoint(tmp_path):
    plan = endless_plan(tmp_path, optimizer=ADAMW)
    with spinning(tmp_path, plan) as process:
        until_they_happened(tmp_path)
        flip(slots_of(process)[2][(SPINS_IN - 1) % 2])
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert f"rank 2: its snapshot of the state before step {SPINS_IN} is damaged" in errors
    assert_undisturbed_so_far(tmp_path, plan, SPINS_IN - 2)
