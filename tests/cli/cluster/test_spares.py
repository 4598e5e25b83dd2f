"""A spare takes the rank of a supervisor that is lost: with the state that another replica has, to
the same bits and at most one completed step later; else with the last checkpoint."""

import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from launchers import (end_all, marked_environment, prefix_of, processes_of, ranks_by_hand, start,
                       wait_until_none_is_left)
from pipelines import PENSTOCK, clean_environment, execute_json, good_plan, needs_backend
from running import endless_plan, until
from surviving import all_hang, fault_list, until_they_happened, went_on
from test_launched_survival import (ADAMW, assert_checkpoint_of_undisturbed, contents, image_plan,
                                    lines_of, running, until_more)

pytestmark = needs_backend

LOST_IN = 25  # the step that all ranks hang in


def hangs(plan):
    return {"PENSTOCK_HANG_AFTER": "1h"} | fault_list(plan.parent, all_hang(plan, LOST_IN))


def lose(plan, ranks, spares, victim, *options):
    """The end of a run where a supervisor is killed; its steps are in the metrics."""
    folder = plan.parent
    with running(plan, ranks + spares, "--spares", spares, "--save", folder / "saved",
                 "--save-every", 10, "--keep", 100, "--json", *options,
                 **hangs(plan)) as (processes, _):
        until_they_happened(folder)
        until(lambda: (folder / "saved" / "step-20").exists(), "nothing is saved")
        processes[victim].kill()
        results = end_all(processes)
    assert results[victim][0] == -signal.SIGKILL
    return [result for process, result in enumerate(results) if process != victim]


def assert_as_undisturbed(plan, results):
    """Losses, metrics and all checkpoints."""
    folder = plan.parent
    whole = execute_json(plan, "--save", folder / "whole", "--save-every", 10, "--keep", 100)
    assert [status for status, _, _ in results] == [0] * len(results), results
    assert json.loads(results[0][1])["losses"] == whole["losses"]
    lines = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == whole["losses"]
    assert contents(folder / "saved") == contents(folder / "whole")
    assert [(output, said) for _, output, said in results[1:]] == [("", "")] * (len(results) - 1)


def test_a_spare_goes_on_with_the_last_checkpoint(tmp_path):
    plan = endless_plan(tmp_path, steps=40, optimizer=ADAMW)
    results = lose(plan, 3, 1, 1)
    assert_as_undisturbed(plan, results)
    said = results[0][2]
    assert "the penstock of rank 1 is gone" in said and "Process 3, a spare, takes rank 1." in said
    assert "Of its state there is only the last checkpoint." in said
    assert f"The run goes on with step 21, from {tmp_path}/saved/step-20." in said


@pytest.mark.parametrize("victim", [1, 2])
def test_a_spare_goes_on_with_the_state_of_another_replica(tmp_path, victim):
    plan = image_plan(tmp_path, 40)
    results = lose(plan, 4, 1, victim)
    assert_as_undisturbed(plan, results)
    assert went_on(results[0][2]) == [LOST_IN]


def test_a_spare_goes_on_with_the_part_of_another_replicas_group(tmp_path):
    plan = good_plan(tmp_path, steps=40, optimizer=ADAMW, data_parallel=2, tensor_parallel=2)
    results = lose(plan, 8, 1, 5)
    assert_as_undisturbed(plan, results)
    assert went_on(results[0][2]) == [LOST_IN]


def test_each_loss_takes_a_spare_that_of_one_that_was_a_spare_too(tmp_path):
    """A kill counts once the run has made steps since the last."""
    draw, plan, metrics = random.Random(7), image_plan(tmp_path, 10_000_000), tmp_path / "m.jsonl"
    victims = [3, 2, 4]  # process 4 has the rank of process 3 by then
    with running(plan, 7, "--spares", 3, "--save", tmp_path / "saved") as (processes, environment):
        for victim in victims:
            until_more(metrics)
            time.sleep(draw.random() * 0.2)
            processes[victim].kill()
        until_more(metrics)
        workers = processes_of(environment, "penstock-worker")
        os.kill(workers[6], signal.SIGKILL)  # and ranks on spares are replaced as others are
        until_more(metrics)
        processes[5].send_signal(signal.SIGUSR1)
        results = end_all(processes)
    left = [result for process, result in enumerate(results) if process not in victims]
    assert sorted(status for status, _, _ in left) == [138, 143, 143, 143], results
    assert re.findall(r"Process (\d), a spare, takes rank (\d)", results[0][2]) == [
        ("4", "3"), ("5", "2"), ("6", "3")]
    step = assert_checkpoint_of_undisturbed(tmp_path, plan)
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == \
        list(range(1, step + 1))


def test_the_loss_of_a_spare_is_told_and_costs_nothing(tmp_path):
    plan, metrics = endless_plan(tmp_path), tmp_path / "m.jsonl"
    with running(plan, 5, "--spares", 2, "--save", tmp_path / "saved") as (processes, _):
        processes[3].kill()
        until_more(metrics)
        processes[4].send_signal(signal.SIGTERM)
        results = end_all(processes)
    assert [status for status, _, _ in results] == [143] * 3 + [-9, 143], results
    assert "the penstock of process 3, a spare, is gone" in results[0][2]
    assert went_on(results[0][2]) == []
    assert_checkpoint_of_undisturbed(tmp_path, plan)


def test_once_no_spare_is_left_the_run_ends(tmp_path):
    plan = image_plan(tmp_path, 10_000_000)
    with running(plan, 5, "--spares", 1, "--save", tmp_path / "saved") as (processes, _):
        processes[4].kill()
        processes[1].kill()
        results = end_all(processes)
    assert [status for status, _, _ in results] == [1, -9, 1, 1, -9], results
    assert "the penstock of rank 1 is gone" in results[0][2]
    assert "No spare is left." in results[0][2]
    assert_checkpoint_of_undisturbed(tmp_path, plan)


def test_a_spare_has_to_be_given_what_the_ranks_are(tmp_path):
    plan = good_plan(tmp_path)
    command = [PENSTOCK, "execute", plan, "--survive", "local", "--spares", "1"]
    results = ranks_by_hand([command, command, [*command, "--steps", "9"]])
    for status, _, errors in results:
        assert status == 2 and re.search(r"steps: \d+ on ranks 0, 1; 9 on rank 2", errors), errors


def lose_under_srun(request, plan, processes, *options):
    """What the run said that lost the supervisor of rank 1, and was ended some steps later."""
    metrics = plan.parent / "m.jsonl"
    prefix, variables = prefix_of("srun", processes, request)
    environment = marked_environment(**variables)
    run = start([*prefix, "--kill-on-bad-exit=0", PENSTOCK, "execute", plan, *options, "--save",
                 plan.parent / "saved", "--metrics", metrics], environment)
    try:
        until(lambda: lines_of(metrics) >= 2, "no steps are made")
        os.kill(processes_of(environment, "penstock")[1], signal.SIGKILL)
        until_more(metrics)
        os.kill(processes_of(environment, "penstock")[0], signal.SIGUSR1)
        (_, _, errors), = end_all([run])
    finally:
        run.kill()
    wait_until_none_is_left(environment)
    return errors


def test_srun_leaves_the_others_alone(tmp_path, request):
    """torchrun and mpirun end all processes where one is killed."""
    plan = image_plan(tmp_path, 10_000_000)
    said = lose_under_srun(request, plan, 5, "--survive", "local", "--spares", 1)
    assert "Process 4, a spare, takes rank 1." in said
    assert_checkpoint_of_undisturbed(tmp_path, plan)


@pytest.mark.parametrize(("options", "told"), [
    (["--survive", "local"], "spares are processes that a launcher starts"),
    (["--survive", "auto"], "only runs that survive failures have any"),
    ([], "only runs that survive failures have any")])
def test_spares_need_a_launcher_and_a_run_that_survives(tmp_path, options, told):
    done = subprocess.run([PENSTOCK, "execute", good_plan(tmp_path), "--spares", "1", *options],
                          capture_output=True, text=True, env=clean_environment(), check=False)
    assert done.returncode == 2 and f"--spares: {told}" in done.stderr, done.stderr


def test_ranks_and_spares_are_counted(tmp_path):
    command = [PENSTOCK, "execute", good_plan(tmp_path), "--survive", "local", "--spares", "2"]
    for status, _, errors in ranks_by_hand([command] * 3):
        assert status == 2 and "is 3, but the plan has 2 ranks and 2 spares are wanted" in errors
