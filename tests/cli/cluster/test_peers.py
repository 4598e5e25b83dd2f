"""Supervisors that keep copies of each other's snapshots: one that is lost costs its ranks' run one
completed step at most, to the same bits, with no checkpoint; without a spare the latest state is
saved."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from launchers import (end_all, marked_environment, processes_of, ranks_by_hand, start_by_hand,
                       wait_until_none_is_left)
from pipelines import PENSTOCK, clean_environment, execute_json, good_plan, needs_backend
from running import endless_plan, until
from surviving import fault_list, flip, slots_of, until_they_happened, went_on
from test_launched_survival import (ADAMW, assert_all_survived, assert_checkpoint_of_undisturbed,
                                    contents, image_plan, lines_of, running, until_more)
from test_spares import LOST_IN, hangs

pytestmark = needs_backend

PEERS = ["--survive", "peers"]


def lose(plan, ranks, spares, victim, *options, before_it=lambda processes: None):
    """The run where a supervisor is killed while all ranks hang."""
    folder = plan.parent
    spare = ["--spares", spares] if spares else []
    with running(plan, ranks + spares, *spare, "--json", *options, how="peers",
                 **hangs(plan)) as (processes, _):
        until_they_happened(folder)
        before_it(processes)
        processes[victim].kill()
        results = end_all(processes)
    return [result for process, result in enumerate(results) if process != victim]


@pytest.mark.parametrize("victim", [1, 2])
def test_a_spare_goes_on_with_the_copy_of_the_partner(tmp_path, victim):
    plan = endless_plan(tmp_path, steps=40, optimizer=ADAMW)
    results = lose(plan, 3, 1, victim)
    assert [status for status, _, _ in results] == [0] * 3, results
    assert json.loads(results[0][1])["losses"] == execute_json(plan)["losses"]
    assert went_on(results[0][2]) == [LOST_IN]
    assert f"Process 3, a spare, takes rank {victim}." in results[0][2]


def test_so_it_does_with_shared_out_optimizer_state(tmp_path):
    plan = image_plan(tmp_path, 40, optimizer_state="sharded")
    results = lose(plan, 4, 1, 2)
    assert [status for status, _, _ in results] == [0] * 4, results
    assert json.loads(results[0][1])["losses"] == execute_json(plan)["losses"]
    assert went_on(results[0][2]) == [LOST_IN]


def test_so_it_does_with_the_part_of_a_tensor_group(tmp_path):
    plan = good_plan(tmp_path, steps=40, optimizer=ADAMW, tensor_parallel=2)
    results = lose(plan, 4, 1, 2)
    assert [status for status, _, _ in results] == [0] * 4, results
    assert json.loads(results[0][1])["losses"] == execute_json(plan)["losses"]
    assert went_on(results[0][2]) == [LOST_IN]


def test_ranks_fail_as_without_peers(tmp_path):
    plan = endless_plan(tmp_path, steps=22, optimizer=ADAMW)
    faults = ["1 3 5 kill", "0 7 copy kill", "2 10 end kill", "1 16 0 throw"]
    command = [PENSTOCK, "execute", plan, *PEERS, "--json"]
    results = ranks_by_hand([command] * 3, **fault_list(tmp_path, faults))
    assert [status for status, _, _ in results] == [0] * 3, results
    assert json.loads(results[0][1])["losses"] == execute_json(plan)["losses"]
    assert_all_survived(faults, results[0][2])


def test_one_loss_after_another_on_machines_of_their_own(tmp_path):
    """With a local size of 1 each process takes itself for the only one of its machine. The bits
    of three ranks on two cores, which take turns, are those of a core for each."""
    plan, metrics = endless_plan(tmp_path, optimizer=ADAMW), tmp_path / "m.jsonl"
    environment, core = marked_environment(), str(min(os.sched_getaffinity(0)))
    command = [PENSTOCK, "execute", plan, *PEERS, "--spares", 2, "--metrics", metrics,
               "--save", tmp_path / "saved"]
    processes = start_by_hand([command] * 5, environment, prefixes=[["taskset", "-c", core]] * 5)
    try:
        for victim in (1, 3):
            until_more(metrics)
            processes[victim].kill()
        until_more(metrics)
        os.kill(processes_of(environment, "penstock-worker")[4], signal.SIGKILL)
        until_more(metrics)
        processes[2].send_signal(signal.SIGUSR1)
        results = end_all(processes)
    finally:
        for process in processes:
            process.kill()
    wait_until_none_is_left(environment)
    assert [status for status, _, _ in results] == [143, -9, 138, -9, 143], results
    assert len(went_on(results[0][2])) == 3, results[0][2]
    assert_checkpoint_of_undisturbed(tmp_path, plan)


def test_a_damaged_snapshot_is_replaced_by_the_partners_copy(tmp_path):
    """All snapshots of rank 0's own: its partner has what it lacks."""
    plan = endless_plan(tmp_path, steps=40, optimizer=ADAMW)

    def damage(processes):
        # As descriptors are numbered, its own come before those of copies.
        for file in slots_of(processes[0])[0]:
            if file.stat().st_size > 0:
                flip(file)

    results = lose(plan, 3, 1, 2, before_it=damage)
    assert [status for status, _, _ in results] == [0] * 3, results
    assert "rank 0: its snapshot of the state before step" in results[0][2]
    assert json.loads(results[0][1])["losses"] == execute_json(plan)["losses"]
    assert went_on(results[0][2]) == [LOST_IN]


# Process 0, which leads and reports, is lost.


def test_the_next_process_leads_and_a_spare_reports(tmp_path):
    plan = endless_plan(tmp_path, steps=40, optimizer=ADAMW)
    saving = ["--save-every", 10, "--keep", 100, "--save"]
    results = lose(plan, 3, 1, 0, *saving, tmp_path / "saved")
    assert [status for status, _, _ in results] == [0] * 3, results
    assert "Process 3, a spare, takes rank 0." in results[0][2]
    (step,) = went_on(results[0][2])
    assert step == LOST_IN
    whole = execute_json(plan, *saving, tmp_path / "whole")
    assert json.loads(results[2][1])["losses"] == whole["losses"][step - 1:]
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == whole["losses"]
    assert contents(tmp_path / "saved") == contents(tmp_path / "whole")


def test_one_leader_after_another_may_be_lost_at_any_moment(tmp_path):
    """The last of them with a spare."""
    draw, metrics = random.Random(3), tmp_path / "m.jsonl"
    plan = endless_plan(tmp_path, optimizer=ADAMW)
    with running(plan, 7, "--spares", 4, "--save", tmp_path / "saved", how="peers") as (
            processes, _):
        for victims in ([0], [1], [6, 2]):
            until_more(metrics)
            for victim in victims:
                time.sleep(draw.random() * 0.2)
                processes[victim].kill()
        until_more(metrics)
        processes[5].send_signal(signal.SIGUSR1)
        results = end_all(processes)
    assert [status for status, _, _ in results] == [-9, -9, -9, 143, 143, 138, -9], results
    step = assert_checkpoint_of_undisturbed(tmp_path, plan)
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == \
        list(range(1, step + 1))


@pytest.mark.parametrize("victim", [0, 1])
def test_without_a_spare_the_latest_state_is_saved(tmp_path, victim):
    plan = endless_plan(tmp_path, optimizer=ADAMW)
    results = lose(plan, 3, 0, victim, "--save", tmp_path / "saved")
    assert [status for status, _, _ in results] == [1, 1], results
    assert f"the penstock of rank {victim} is gone" in results[0][2]
    assert "The latest state is not saved" not in results[0][2]
    assert assert_checkpoint_of_undisturbed(tmp_path, plan) == LOST_IN - 1


def test_a_partner_that_is_stopped_is_waited_for(tmp_path):
    plan, metrics = endless_plan(tmp_path, optimizer=ADAMW), tmp_path / "m.jsonl"
    with running(plan, 3, "--save", tmp_path / "saved", how="peers") as (processes, _):
        processes[1].send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{processes[1].pid}/stat")
        until(lambda: " T " in state.read_text(), "it is not stopped")
        made = lines_of(metrics)
        time.sleep(0.5)
        assert lines_of(metrics) <= made + 2
        processes[1].send_signal(signal.SIGCONT)
        until_more(metrics)
        processes[0].send_signal(signal.SIGUSR1)
        results = end_all(processes)
    assert [status for status, _, _ in results] == [138, 143, 143], results
    assert_checkpoint_of_undisturbed(tmp_path, plan)


def test_alone_it_is_refused(tmp_path):
    done = subprocess.run([PENSTOCK, "execute", good_plan(tmp_path), *PEERS], capture_output=True,
                          text=True, env=clean_environment(), check=False)
    assert done.returncode == 2 and "--survive: copies go to other processes" in done.stderr


def test_all_ranks_have_to_have_peers_or_none(tmp_path):
    plan = good_plan(tmp_path)
    results = ranks_by_hand([[PENSTOCK, "execute", plan, "--survive", how]
                             for how in ("peers", "local")])
    for status, _, errors in results:
        assert status == 2 and "yes, by peers on rank 0; yes on rank 1" in errors, errors

