"""Under a launcher each rank has a supervisor of its own; together they survive what one supervisor
of all ranks survives, to the same bits. Where a supervisor is lost they end together."""

import contextlib
import json
import os
import random
import re
import signal
import time
from datetime import timedelta

import pytest

from launchers import (end_all, free_port, marked_environment, prefix_of, processes_of,
                       ranks_by_hand, start, start_by_hand, wait_until_none_is_left)
from pipelines import (PENSTOCK, execute_json, good_plan, model_path, needs_backend, torch, vectors,
                       write_plan)
from running import endless_plan, until
from surviving import all_hang, fault_list, flip, slots_of, until_they_happened, went_on

pytestmark = needs_backend

ADAMW = {"kind": "adamw", "learning_rate": 0.01, "clip_norm": 1.0}
SURVIVES = ["--survive", "local", "--json"]
FAULTS = ["1 3 5 kill", "0 7 copy kill", "2 10 end kill", "0 13 2 kill", "2 13 2 kill",
          "1 16 0 throw", "1 19 3 stop"]


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes()
            for file in sorted(folder.rglob("*")) if file.is_file()}


def survive(plan, ranks, *options, faults=(), **variables):
    command = [PENSTOCK, "execute", plan, *SURVIVES, *options]
    return ranks_by_hand([command] * ranks, **fault_list(plan.parent, faults), **variables)


def image_plan(folder, steps, **more):
    """Two stages, two replicas."""
    data = vectors(folder, "image", None, torch.float32, shape=[1, 28, 28])
    return write_plan(folder, model_path("image_classifier"), data, ["", "stage1"], 2, 8,
                      steps=steps, data_parallel=2, optimizer=ADAMW, **more)


def assert_all_survived(faults, errors):
    """Two faults of a step may stop the run together, or one after the other."""
    steps = {fault.split()[1] for fault in faults}
    assert len(steps) <= len(went_on(errors)) <= len(faults), errors


def assert_undisturbed(plan, ranks, faults, *options):
    """Losses and all files of checkpoints; what a run says only one process says."""
    folder = plan.parent
    saving = [*options, "--save-every", 5, "--keep", 100, "--save"]
    whole = execute_json(plan, *saving, folder / "whole")
    (_, output, errors), *others = results = survive(plan, ranks, *saving, folder / "saved",
                                                     faults=faults)
    assert [status for status, _, _ in results] == [0] * ranks, results
    assert json.loads(output)["losses"] == whole["losses"]
    assert contents(folder / "saved") == contents(folder / "whole")
    assert_all_survived(faults, errors)
    assert [(output, said) for _, output, said in others] == [("", "")] * (ranks - 1)
    assert all(line.startswith("#") for line in (folder / "faults").read_text().splitlines())


def test_ranks_of_several_supervisors_may_fail_two_at_once_too(tmp_path):
    assert_undisturbed(endless_plan(tmp_path, steps=22, optimizer=ADAMW), 3, FAULTS)


@pytest.mark.parametrize("state", ["replicated", "sharded"])
def test_replicas_survive(tmp_path, state):
    plan = image_plan(tmp_path, 12, optimizer_state=state)
    assert_undisturbed(plan, 4, ["3 2 4 kill", "0 5 end kill", "1 9 copy kill", "2 9 0 throw"])


def test_parts_of_tensor_groups_survive(tmp_path):
    plan = good_plan(tmp_path, steps=12, optimizer=ADAMW, tensor_parallel=2)
    assert_undisturbed(plan, 4, ["1 2 2 kill", "2 5 end kill", "0 9 copy kill", "3 9 0 throw"])


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "srun"])
def test_the_processes_that_a_launcher_watches_stay(tmp_path, request, launcher):
    """torchrun would start all of them anew, mpirun end them."""
    plan = endless_plan(tmp_path, steps=22, optimizer=ADAMW)
    prefix, variables = prefix_of(launcher, 3, request)
    environment = marked_environment(**variables, **fault_list(tmp_path, FAULTS))
    (status, output, errors), = end_all([start([*prefix, PENSTOCK, "execute", plan, *SURVIVES],
                                               environment)])
    assert status == 0, errors
    assert json.loads(output)["losses"] == execute_json(plan)["losses"]
    assert_all_survived(FAULTS, errors)


def test_a_supervisor_that_is_lost_before_it_is_known_is_not_waited_for(tmp_path):
    """Its rank is played here: it agrees with rank 0 on what to run, and no more is heard of it."""
    port, run = free_port(), "half"
    places = {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
              "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2, "TORCHELASTIC_RUN_ID": run,
              "TORCHELASTIC_RESTART_COUNT": 0}
    process = start([PENSTOCK, "execute", good_plan(tmp_path), *SURVIVES, "--start-timeout", "5s"],
                    marked_environment(**places))
    tcp = torch.distributed.TCPStore("127.0.0.1", port, timeout=timedelta(minutes=1))
    store = torch.distributed.PrefixStore(f"penstock/{run}/0/", tcp)
    store.set("handshake/1", store.get("handshake/0"))
    (status, _, errors), = end_all([process])
    assert status == 1
    assert "not all ranks had come 5 s after they met" in errors
    assert "The penstock of process 1 had not come yet." in errors


# Runs without an end of their own.


@contextlib.contextmanager
def running(plan, ranks, *options, how="local", **variables):
    """The processes of a run that has made two steps, and so has a state to save, and their
    environment."""
    environment, metrics = marked_environment(**variables), plan.parent / "m.jsonl"
    command = [PENSTOCK, "execute", plan, "--survive", how, "--metrics", metrics, *options]
    processes = start_by_hand([command] * ranks, environment)
    try:
        until(lambda: lines_of(metrics) >= 2 or has_ended(processes), "no steps are made")
        assert lines_of(metrics) >= 2, end_all(processes)
        yield processes, environment
    finally:
        for process in processes:
            process.kill()
    wait_until_none_is_left(environment)


def has_ended(processes):
    return any(process.poll() is not None for process in processes)


def lines_of(metrics):
    return metrics.read_text().count("\n") if metrics.exists() else 0


def until_more(metrics):
    """Steps after any rank that was killed before this call was replaced: the others may have ended
    one step without it, and written that only now."""
    made = lines_of(metrics)
    until(lambda: lines_of(metrics) >= made + 3, "no steps are made")


def assert_checkpoint_of_undisturbed(tmp_path, plan):
    (checkpoint,) = (tmp_path / "saved").iterdir()
    step = int(checkpoint.name.removeprefix("step-"))
    execute_json(plan, "--save", tmp_path / "whole", "--steps", step)
    assert contents(checkpoint) == contents(tmp_path / "whole" / checkpoint.name)
    return step


@pytest.mark.parametrize("seed", range(3))
def test_ranks_may_be_killed_at_any_moment(tmp_path, seed):
    """Also while a new epoch begins, and two at a time. A kill counts once the run has made a step
    since the last, since the third without one would end it."""
    draw = random.Random(seed)
    plan, metrics = endless_plan(tmp_path, optimizer=ADAMW), tmp_path / "m.jsonl"
    with running(plan, 3, "--save", tmp_path / "saved") as (processes, environment):
        for _ in range(6):
            until_more(metrics)
            time.sleep(draw.random() * 0.3)
            for victim in draw.sample(range(3), draw.choice([1, 2])):
                workers = processes_of(environment, "penstock-worker")
                with contextlib.suppress(ProcessLookupError):  # it ends with the first
                    if victim in workers:
                        os.kill(workers[victim], signal.SIGKILL)
        until_more(metrics)
        processes[draw.randrange(3)].send_signal(signal.SIGUSR1)
        results = end_all(processes)
    assert sorted(status for status, _, _ in results) == [143, 143, 138][::-1], results
    assert len(went_on(results[0][2])) >= 6
    step = assert_checkpoint_of_undisturbed(tmp_path, plan)
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == \
        list(range(1, step + 1))


@pytest.mark.parametrize("told", [0, 1])
def test_the_latest_state_is_saved_where_a_step_does_not_end(tmp_path, told):
    plan, spins_in = endless_plan(tmp_path, optimizer=ADAMW), 6
    with running(plan, 3, "--save", tmp_path / "saved", PENSTOCK_HANG_AFTER="1h",
                 **fault_list(tmp_path, all_hang(plan, spins_in))) as (processes, _):
        until_they_happened(tmp_path)
        processes[told].send_signal(signal.SIGTERM)
        results = end_all(processes)
    assert [status for status, _, _ in results] == [128 + signal.SIGTERM] * 3, results
    assert "since a step did not end within 5 s of it" in results[0][2]
    assert assert_checkpoint_of_undisturbed(tmp_path, plan) == spins_in - 1
    assert [said for _, _, said in results[1:]] == ["", ""]


def test_an_interrupt_of_any_process_ends_all(tmp_path):
    with running(endless_plan(tmp_path), 3, "--save", tmp_path / "saved") as (processes, _):
        processes[2].send_signal(signal.SIGINT)
        results = end_all(processes)
    assert [status for status, _, _ in results] == [128 + signal.SIGINT] * 3, results
    assert not (tmp_path / "saved").exists() or not list((tmp_path / "saved").iterdir())


def test_a_rank_that_hangs_is_replaced(tmp_path):
    plan = endless_plan(tmp_path, steps=12)
    results = survive(plan, 3, faults=["2 4 3 spin"], PENSTOCK_HANG_AFTER="2s")
    assert [status for status, _, _ in results] == [0] * 3, results
    assert re.search(r"rank 2 .* waits for nobody: it was killed", results[0][2])


def test_where_all_ranks_wait_they_are_connected_anew_once(tmp_path):
    """A rank that hangs as it waits for a message looks, from outside, like one that lost it."""
    results = survive(endless_plan(tmp_path, steps=20), 3, faults=["1 4 0.5 spin", "2 9 0.5 spin"],
                      PENSTOCK_HANG_AFTER="2s")
    assert [status for status, _, _ in results] == [0] * 3, results
    assert re.findall(r"in step (\d+) at \dRECV_F.* the message of rank (\d) to rank (\d) is lost",
                      results[0][2]) == [("4", "0", "1"), ("9", "1", "2")]


def test_the_same_failure_again_ends_all_with_one_message(tmp_path):
    plan = good_plan(tmp_path, steps=6)
    results = survive(plan, 2, "--save", tmp_path / "saved", faults=["1 3 2 throw"] * 2)
    assert [status for status, _, _ in results] == [1, 1], results
    said = results[0][2]
    assert "rank 1 failed in step 3" in said and "It failed there before." in said
    assert results[1][2] == ""
    # The state after step 2 is still being copied while step 3 runs.
    assert assert_checkpoint_of_undisturbed(tmp_path, plan) in (1, 2)


def test_all_ranks_have_to_survive_or_none(tmp_path):
    plan = good_plan(tmp_path)
    results = ranks_by_hand([[PENSTOCK, "execute", plan, "--survive", "local"],
                             [PENSTOCK, "execute", plan]])
    for status, _, errors in results:
        assert status == 2 and "failures survived: yes on rank 0; no on rank 1" in errors, errors


DAMAGED_IN = 50


@pytest.mark.parametrize("rank, slots, words, goes_on_with", [
    (2, 1, f"before step {DAMAGED_IN} is damaged", f"step {DAMAGED_IN - 1}."),
    (0, 3, f"before step {DAMAGED_IN - 1} is damaged", "step 31, from {}/step-30.")])
def test_a_damaged_snapshot_of_any_supervisor_is_found(tmp_path, rank, slots, words, goes_on_with):
    plan, saved = endless_plan(tmp_path, steps=60, optimizer=ADAMW), tmp_path / "saved"
    with running(plan, 3, "--save", saved, "--save-every", 30, "--keep", 100,
                 PENSTOCK_HANG_AFTER="1h", **fault_list(tmp_path, all_hang(plan, DAMAGED_IN))) as (
            processes, environment):
        until_they_happened(tmp_path)
        until(lambda: (saved / "step-30").exists(), "nothing is saved")
        (files,) = slots_of(processes[rank])
        for file in files if slots > 1 else [files[(DAMAGED_IN - 1) % 2]]:
            if file.stat().st_size > 0:
                flip(file)
        os.kill(processes_of(environment, "penstock-worker")[1], signal.SIGKILL)
        results = end_all(processes)
    said = results[0][2]
    assert [status for status, _, _ in results] == [0] * 3, results
    assert re.search(f"rank {rank}: its snapshot of the state {words}", said), said
    assert f"The run goes on with {goes_on_with.format(saved)}" in said
    execute_json(plan, "--save", tmp_path / "whole", "--save-every", 30, "--keep", 100)
    assert contents(saved) == contents(tmp_path / "whole")


# A supervisor is lost, with its ranks.


@pytest.mark.parametrize("victim", range(3))
def test_where_a_supervisor_is_killed_the_others_end(tmp_path, victim):
    with running(endless_plan(tmp_path), 3, "--save", tmp_path / "saved") as (processes, _):
        processes[victim].kill()
        results = end_all(processes)
    left = [result for rank, result in enumerate(results) if rank != victim]
    assert [status for status, _, _ in left] == [1, 1], results
    assert f"the penstock of rank {victim} is gone" in left[0][2], results  # the first leads
    assert left[1][2] == "", results


def test_two_that_are_lost_are_named_together(tmp_path):
    with running(endless_plan(tmp_path), 3) as (processes, _):
        for victim in (1, 2):
            processes[victim].kill()
        results = end_all(processes)
    assert results[0][0] == 1
    assert re.search("the penstock of ranks (1, 2|2, 1) is gone", results[0][2]), results[0][2]


@pytest.mark.parametrize("victim", [0, 1])
def test_the_state_of_a_lost_supervisor_is_saved_from_another_replica(tmp_path, victim):
    plan = image_plan(tmp_path, 10_000_000)
    with running(plan, 4, "--save", tmp_path / "saved") as (processes, _):
        processes[victim].kill()
        results = end_all(processes)
    first = 1 if victim == 0 else 0  # leads
    assert f"the penstock of rank {victim} is gone" in results[first][2], results
    assert_checkpoint_of_undisturbed(tmp_path, plan)


def test_without_a_replica_of_it_nothing_is_saved(tmp_path):
    with running(endless_plan(tmp_path), 3, "--save", tmp_path / "saved") as (processes, _):
        processes[1].kill()
        results = end_all(processes)
    assert "The latest state is not saved: parts of it are lost." in results[0][2], results
    assert not (tmp_path / "saved").exists() or not list((tmp_path / "saved").iterdir())
