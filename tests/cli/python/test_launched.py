"""penstock.Pipeline under a launcher: each process is a rank, and its script feeds that rank."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from feeding import launchers
from pipelines import (TORCHRUN, clean_environment, execute_json, good_plan, load_file, model_path,
                       needs_backend, save_file, torch, vectors, write_plan)

pytestmark = needs_backend
SCRIPT = Path(__file__).with_name("fed_script.py")
RATE = {"kind": "sgd", "learning_rate": 0.05}


def scripts(plan, ranks, *arguments, **variables):
    """What each rank's script printed, in order of the ranks."""
    command = [sys.executable, SCRIPT, plan, *arguments]
    done = launchers.ranks_by_hand([command] * ranks, **variables)
    printed = [json.loads(output) for status, output, _ in done if output]
    assert len(printed) + sum(status != 0 for status, _, _ in done) == ranks, done
    return sorted(printed, key=lambda each: each["rank"])


def replicated(folder, **more):
    """Two replicas of two ranks, a third of the targets ignored."""
    data = vectors(folder, "x", 512, torch.float32)
    tensors = load_file(data)
    tensors["target"][::3] = -100
    save_file(tensors, data)
    return write_plan(folder, model_path("pippy"), data, ["", "layer1"], 2, 4, data_parallel=2,
                      **more)


def test_losses_are_those_of_execute_on_all_ranks(tmp_path):
    plan = good_plan(tmp_path)
    first, last = scripts(plan, 2, 3)
    assert first["losses"] == last["losses"] == execute_json(plan)["losses"]
    assert first["inputs"] == ["x"] and last["inputs"] == ["target"]
    assert first["state"] == sorted(torch.export.load(model_path("pippy")).state_dict)
    assert last["state"] is None


def test_replicas_are_fed_their_own_samples(tmp_path):
    plan = replicated(tmp_path)
    found = scripts(plan, 4, 3)
    assert [each["replica"] for each in found] == [0, 0, 1, 1]
    assert [each["losses"] for each in found] == [execute_json(plan)["losses"]] * 4


def test_the_parts_of_a_tensor_group_are_fed_the_same_samples(tmp_path):
    plan = replicated(tmp_path, tensor_parallel=2)
    found = scripts(plan, 8, 3, "own inputs", "all")
    assert [each["replica"] for each in found] == [0] * 4 + [1] * 4
    assert [each["inputs"] for each in found] == [["x"], ["x"], ["target"], ["target"]] * 2
    assert [each["losses"] for each in found] == [execute_json(plan)["losses"]] * 8
    assert found[0]["state"] == sorted(torch.export.load(model_path("pippy")).state_dict)
    assert [each["state"] for each in found[1:]] == [None] * 7


def test_a_rank_may_be_given_only_what_it_reads(tmp_path):
    plan = replicated(tmp_path)
    found = scripts(plan, 4, 3, "own inputs", "all")
    assert [each["losses"] for each in found] == [execute_json(plan)["losses"]] * 4


def test_under_torchrun(tmp_path):
    plan = good_plan(tmp_path)
    done = subprocess.run([TORCHRUN, "--nproc-per-node", "2", "--rdzv-backend", "c10d",
                           "--rdzv-endpoint", "localhost:0", SCRIPT, plan, "3"],
                          capture_output=True, text=True, timeout=300, env=clean_environment())
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["losses"] for each in found] == [execute_json(plan)["losses"]] * 2


@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec", "srun"])
def test_under_other_launchers(tmp_path, request, launcher):
    plan = good_plan(tmp_path)
    prefix, variables = launchers.prefix_of(launcher, 2, request)
    (status, output, errors), = launchers.end_all([launchers.start(
        [*prefix, sys.executable, SCRIPT, plan, 3], launchers.marked_environment(**variables))])
    assert status == 0, errors
    found = [json.loads(line) for line in output.splitlines()]
    assert [each["losses"] for each in found] == [execute_json(plan)["losses"]] * 2


@pytest.mark.parametrize("mistake, rank, message, cure", [
    ("x", 2, "step 2: ranks 2 and 3 were given different x", "Seed their samplers alike"),
    ("target", 1, "step 2: ranks 0 and 1 were given different target", "Seed their samplers alike"),
    ("evaluates", 1, "step 2: rank 0 called step(), rank 1 called evaluate()", "in the same order"),
    ("rate", 0, "step 2: learning_rate is 0.1 on rank 0 and 0.05 on rank 1", "Compute it alike")])
def test_ranks_that_disagree_are_told_and_nothing_was_done(tmp_path, mistake, rank, message, cure):
    found = scripts(replicated(tmp_path), 4, 3, mistake, rank)
    assert [each["error"] for each in found] == ["InputError"] * 4
    for each in found:
        assert message in each["message"] and cure in each["message"]


def test_a_script_that_ends_early_is_named(tmp_path):
    first, last = scripts(good_plan(tmp_path), 2, 3, "ends", 1)
    assert len(last["losses"]) == 1
    assert first["error"] == "RunError"
    assert ("rank 1's script ended after step 1, rank 0 is in step 2: give every rank as many "
            "batches") in first["message"]


def test_where_ranks_survive_it_is_told_itself_too(tmp_path):
    """The run has failed for all of them, and does not begin anew."""
    command = [sys.executable, SCRIPT, good_plan(tmp_path), 3, "ends", 1, "local"]
    (_, output, _), (status, _, errors) = launchers.ranks_by_hand([command] * 2)
    assert json.loads(output)["error"] == "RunError" and status == 1
    for told in (json.loads(output)["message"], errors):
        assert "rank 1's script ended after step 1, rank 0 is in step 2" in told


@pytest.mark.parametrize(("mistake", "survive"), [("dies", "off"), ("raises", "off"),
                                                  ("dies", "local")])
def test_a_script_that_dies_is_named_and_nothing_is_left(tmp_path, mistake, survive):
    (first,) = scripts(good_plan(tmp_path), 2, 3, mistake, 1, survive)
    assert first["error"] == "RunError" and "rank 1" in first["message"], first
    assert "ended after step 1" in first["message"]


def test_the_number_of_processes_must_fit(tmp_path):
    done = launchers.ranks_by_hand([[sys.executable, SCRIPT, good_plan(tmp_path), "1"]] * 3)
    for status, _, errors in done:
        assert status == 1 and "WORLD_SIZE: is 3, but the plan has 2 ranks" in errors
