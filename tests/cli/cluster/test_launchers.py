"""penstock execute as a rank of real launchers: it trains as when it starts its workers itself, and
ends as a whole."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from launchers import (end_all, free_port, marked_environment, prefix_of, processes_of,
                       ranks_by_hand, start, wait_until_none_is_left)
from pipelines import (PENSTOCK, execute_json, good_plan, model_path, needs_backend,
                       torch, vectors, write_plan)

pytestmark = needs_backend

LAYERS = Path(__file__).parents[3] / "configs" / "layers" / "moe_62.yaml"


def image_plan(folder, replicas, steps=3, **more):
    """The image classifier: two stages, as many replicas as asked for."""
    data = vectors(folder, "image", None, torch.float32, shape=[1, 28, 28])
    return write_plan(folder, model_path("image_classifier"), data, ["", "stage1"], 2, 8,
                      steps=steps, data_parallel=replicas, **more)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec", "srun"])
def test_each_process_is_a_rank_and_trains_the_same(tmp_path, request, launcher, ranks):
    prefix, variables = prefix_of(launcher, ranks, request)
    plan = image_plan(tmp_path, ranks // 2)
    (status, output, errors), = end_all([start([*prefix, PENSTOCK, "execute", plan, "--json"],
                                               marked_environment(**variables))])
    assert status == 0, errors
    assert json.loads(output)["losses"] == execute_json(plan)["losses"]


@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec"])
def test_runs_at_the_same_time_do_not_meet(tmp_path, request, launcher):
    """mpiexec says nothing that differs between runs; a shell between it and the rank changes
    nothing. Open MPI removes the folder of its sessions when it ends, though another is beginning
    there: each has its own."""
    prefix, variables = prefix_of(launcher, 2, request)
    plans = [image_plan(tmp_path, 1, name=f"{steps}.yaml", steps=steps) for steps in (3, 5)]
    command = [*prefix, "sh", "-c", '"$0" "$@"; exit $?', PENSTOCK, "execute"]
    results = end_all([start([*command, plan, "--json"], marked_environment(
        **variables, OMPI_MCA_orte_tmpdir_base=plan.with_suffix(""))) for plan in plans])
    assert [status for status, _, _ in results] == [0, 0], results
    losses = [json.loads(output)["losses"] for _, output, _ in results]
    assert losses == [execute_json(plan)["losses"] for plan in plans]


def test_each_process_is_the_rank_whose_device_it_is_on(tmp_path):
    """Whoever is rank 0 reports, and the numbers are those of the plan without devices."""
    expected = execute_json(image_plan(tmp_path, 2))["losses"]
    plan = image_plan(tmp_path, 2, name="placed.yaml", devices=[6, 1, 4, 3])
    results = ranks_by_hand([[PENSTOCK, "execute", plan, "--json"]] * 4)
    assert [status for status, _, _ in results] == [0] * 4, results
    assert [bool(output) for _, output, _ in results] == [False, False, False, True]
    assert json.loads(results[3][1])["losses"] == expected
    assert execute_json(plan)["losses"] == expected


def test_a_killed_process_is_named_by_its_rank(tmp_path):
    """Process 1 is rank 0 of the plan; process 0, which has the store, finds out."""
    plan = image_plan(tmp_path, 1, steps=10_000_000, devices=[1, 0])
    common = marked_environment(WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1",
                                MASTER_PORT=free_port())
    left, victim = (start([PENSTOCK, "execute", plan],
                          {**common, "RANK": str(i), "LOCAL_RANK": str(i)}) for i in (0, 1))
    seen = next((line for line in victim.stderr if re.search(r"step +\d+/", line)), None)
    assert seen, end_all([victim, left])
    victim.kill()
    (status, _, errors), _ = end_all([left, victim])
    assert status == 1 and "rank 0 is gone without a word" in errors, errors
    wait_until_none_is_left(common)


def test_within_an_allocation_but_not_a_step_all_ranks_are_started_from_here(tmp_path, slurm):
    plan = image_plan(tmp_path, 1, steps=1)
    script = tmp_path / "batch.sh"
    script.write_text(f"#!/bin/sh\nexec {PENSTOCK} execute {plan} --json\n")
    sbatch = slurm.srun.replace("srun", "sbatch")
    (status, _, errors), = end_all([start([sbatch, "--wait", "-n", "2", "-o", tmp_path / "out",
                                           script], marked_environment(**slurm.environment))])
    assert status == 0, errors + (tmp_path / "out").read_text()
    assert '"ranks": 2' in (tmp_path / "out").read_text()


@pytest.mark.parametrize("launcher, victim, program", [
    ("mpirun", 1, "penstock"), ("mpiexec", 1, "penstock"), ("srun", 1, "penstock"),
    ("srun", 2, "penstock-worker"),
    ("srun", 0, "penstock"), ("torchrun", 1, "penstock")])
def test_a_killed_rank_ends_all_and_is_named(tmp_path, request, launcher, victim, program):
    prefix, variables = prefix_of(launcher, 3, request)
    plan = write_plan(tmp_path, model_path("pippy"), vectors(tmp_path, "x", 512, torch.float32),
                      ["", "layer1", "layer2"], 4, 4, steps=10_000_000)
    environment = marked_environment(**variables)
    process = start([*prefix, PENSTOCK, "execute", plan], environment)
    seen = ""
    for line in process.stderr:
        seen += line
        if re.search(r"step +\d+/", line):
            break
    ranks = processes_of(environment, program)
    assert sorted(ranks) == [0, 1, 2], seen
    os.kill(ranks[victim], signal.SIGKILL)
    (status, output, errors), = end_all([process])
    assert status != 0
    if launcher == "mpiexec":  # which ends the others at once, and names any of them
        assert "BAD TERMINATION" in output and "signal 9" in output, output + errors
    else:
        assert re.search(rf"(rank|task)\s*:?\s*{victim}\b", errors), errors
    if launcher == "srun":  # which lets the others run on: they end by themselves, and say why
        assert re.search(rf"(lost )?rank {victim}\b", errors), errors
        if victim == 1:
            assert "rank 1 is gone without a word" in errors
    wait_until_none_is_left(environment)


def changed(plan, name, **changes):
    content = {**yaml.safe_load(plan.read_text()), **changes}
    path = plan.with_name(name)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def test_ranks_of_different_plans_end_at_once_with_both_values(tmp_path):
    plan = good_plan(tmp_path)
    other = changed(plan, "other.yaml", microbatches=1, microbatch=8)
    results = ranks_by_hand([[PENSTOCK, "execute", plan], [PENSTOCK, "execute", other]])
    for status, _, errors in results:
        assert status == 2, errors
        assert "microbatches: 2 on rank 0; 1 on rank 1" in errors
        assert "plan sha256:" in errors


def test_ranks_with_different_flags_end_at_once_with_both_values(tmp_path):
    plan = good_plan(tmp_path)
    results = ranks_by_hand([[PENSTOCK, "execute", plan],
                             [PENSTOCK, "execute", plan, "--steps", "2"]])
    for status, _, errors in results:
        assert status == 2 and "steps: 3 on rank 0; 2 on rank 1" in errors, errors


@pytest.mark.parametrize("refusing", [0, 1])
def test_a_mistake_of_one_rank_ends_the_others_at_once(tmp_path, refusing):
    commands = [[PENSTOCK, "execute", good_plan(tmp_path)] for _ in range(2)]
    commands[refusing][2] = tmp_path / "missing.yaml"
    results = ranks_by_hand(commands)
    for rank, (status, _, errors) in enumerate(results):
        assert status == 2 and "missing.yaml" in errors, errors
        if rank != refusing:
            assert f"rank {refusing} refuses to run" in errors


def test_ranks_that_do_not_come_are_named(tmp_path):
    command = [PENSTOCK, "execute", image_plan(tmp_path, 2), "--start-timeout", "3s"]
    for status, _, errors in ranks_by_hand([command, None, command, None]):
        assert status == 1, errors
        assert "ranks 1, 3 of 4 did not come within 3 s" in errors


def test_without_rank_0_the_others_say_where_they_looked_for_it(tmp_path):
    (status, _, errors), = ranks_by_hand([None, [PENSTOCK, "execute", good_plan(tmp_path),
                                                 "--start-timeout", "1s"]])
    assert status == 1 and "no store at 127.0.0.1:" in errors and "MASTER_ADDR" in errors, errors


def test_a_job_is_profiled_by_one_process(tmp_path):
    profile = tmp_path / "profile.json"
    for status, _, errors in ranks_by_hand(
            [[PENSTOCK, "profile", tmp_path / "job.yaml", "-o", profile]] * 2):
        assert status == 2 and "WORLD_SIZE" in errors and "without torchrun" in errors
    assert not profile.exists()


def test_a_link_between_two_ranks_is_measured_and_a_plan_is_simulated_with_it(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    first, (other, _, _) = ranks_by_hand([[PENSTOCK, "profile", "--link", "-o", cluster]] * 2)
    status, output, errors = first
    assert (status, other) == (0, 0), errors
    assert "between ranks 0 and 1" in output
    link = yaml.safe_load(cluster.read_text())["link"]
    assert float(link["latency"]) >= 0 and link["send"] == "posted"
    # beside other work the times may not grow with the bytes
    assert float(link.get("bandwidth", "inf")) > 0
    plan = tmp_path / "plan.yaml"
    planned = subprocess.run([PENSTOCK, "plan", LAYERS, "--cluster", cluster, "--schedule", "1f1b",
                              "-o", plan], capture_output=True, text=True)
    assert planned.returncode == 0, planned.stderr
    simulated = json.loads(subprocess.run([PENSTOCK, "simulate", plan, "--json"],
                                          capture_output=True, text=True).stdout)
    assert simulated["step_s"] == yaml.safe_load(plan.read_text())["prediction"]["step_s"]


def test_a_link_over_sockets_is_measured_as_one(tmp_path):
    def link(*flags):
        subprocess.run([PENSTOCK, "profile", "--link", *flags, "-o", tmp_path / "cluster.yaml"],
                       check=True, capture_output=True)
        return yaml.safe_load((tmp_path / "cluster.yaml").read_text())["link"]

    # Between ranks of one machine that exchange through memory the receiver copies.
    assert link()["receive_depth"] == 0
    assert "receive_depth" not in link("--transport", "gloo")


@pytest.mark.parametrize("device", ["cuda", "estimate"])
def test_a_link_is_between_hosts(tmp_path, device):
    done = subprocess.run([PENSTOCK, "profile", "--link", "--device", device, "-o",
                           tmp_path / "cluster.yaml"], capture_output=True, text=True)
    assert done.returncode == 2 and "--link: measures what hosts exchange" in done.stderr
    assert not (tmp_path / "cluster.yaml").exists()


def saving(prefix, plan, saved, environment):
    """A run that saves and has made its first step."""
    process = start([*prefix, PENSTOCK, "execute", plan, "--save", saved], environment)
    seen = ""
    for line in process.stderr:
        seen += line
        if re.search(r"step +\d+/", line):
            return process
    raise AssertionError(f"ended with {process.wait()}: {seen}")


@pytest.mark.parametrize("launcher, number", [("torchrun", signal.SIGTERM),
                                              ("mpirun", signal.SIGUSR1),
                                              ("srun", signal.SIGUSR1)])
def test_a_signal_to_the_launcher_saves(tmp_path, request, launcher, number):
    """Each rank gets it at a moment of its own."""
    prefix, variables = prefix_of(launcher, 2, request)
    environment, saved = marked_environment(**variables), tmp_path / "saved"
    process = saving(prefix, image_plan(tmp_path, 1, steps=10_000_000), saved, environment)
    process.send_signal(number)
    (status, _, errors), = end_all([process])
    assert status != 0
    (checkpoint,) = saved.iterdir()
    assert (checkpoint / "manifest.json").exists(), errors
    assert f"ended by {number.name}\n  The last checkpoint is {checkpoint}." in errors
    wait_until_none_is_left(environment)


@pytest.mark.parametrize("told", [0, 1])
def test_a_signal_to_one_rank_ends_all_after_the_same_step(tmp_path, told):
    plan, saved = image_plan(tmp_path, 1, steps=10_000_000), tmp_path / "saved"
    common = marked_environment(WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1",
                                MASTER_PORT=free_port())
    other = start([PENSTOCK, "execute", plan, "--save", saved],
                  {**common, "RANK": "1", "LOCAL_RANK": "1"})
    first = saving([], plan, saved, {**common, "RANK": "0", "LOCAL_RANK": "0"})
    (first, other)[told].send_signal(signal.SIGUSR1)
    results = end_all([first, other])
    (checkpoint,) = saved.iterdir()
    for rank, (status, _, errors) in enumerate(results):
        number = signal.SIGUSR1 if rank == told else signal.SIGTERM
        assert status == 128 + number, errors
        assert f"ended by {number.name}\n  The last checkpoint is {checkpoint}." in errors
    wait_until_none_is_left(common)
