"""Where supervisors are lost and no spare is left a run is planned anew for those that are left,
and goes on from a checkpoint, as that plan does by itself from there."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from launchers import end_all, processes_of, ranks_by_hand
from pipelines import (PENSTOCK, clean_environment, execute_json, model_path,
                       needs_backend, torch, vectors, write_plan)
from running import endless_plan, until
from surviving import until_they_happened
from test_launched_survival import ADAMW, contents, running, until_more
from test_spares import LOST_IN, hangs, lose_under_srun
from trainings import FLOAT32, FLOAT64

pytestmark = needs_backend

STEPS = 40
NEAR_ONE = 2 ** -24  # rounding of float32 there: a small cross entropy is a difference of such
SAVING = ["--save-every", 10, "--keep", 100, "--save"]


def measured(folder, model, data, batch, *options):
    job = {"penstock": "job", "model": str(model_path(model)), "loss": "cross_entropy",
           "data": str(data), "global_batch": batch,
           "optimizer": {"kind": "sgd", "learning_rate": 0.05}}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    subprocess.run([PENSTOCK, "profile", "job.yaml", "--quick", *options, "-o", "profile.json"],
                   cwd=folder, check=True, capture_output=True, env=clean_environment())
    return {"path": str(folder / "profile.json")}


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layers")
    return measured(folder, "pippy", vectors(folder, "x", 512, torch.float32), 16)


def measured_images(folder):
    data = vectors(folder, "image", None, torch.float32, shape=[1, 28, 28])
    return measured(folder, "image_classifier", data, 32)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return measured_images(tmp_path_factory.mktemp("images"))


def replicas(folder, profile, **more):
    """Two stages, two replicas."""
    data = vectors(folder, "image", None, torch.float32, shape=[1, 28, 28])
    return write_plan(folder, model_path("image_classifier"), data, ["", "stage1"], 4, 4,
                      steps=STEPS, data_parallel=2, optimizer=ADAMW, profile=profile, **more)


def lose(plan, ranks, victims, *options, how="peers"):
    """The run where supervisors are killed while all ranks hang."""
    folder = plan.parent
    with running(plan, ranks, "--shrink", "--json", *SAVING, folder / "saved", *options, how=how,
                 **hangs(plan)) as (processes, _):
        until_they_happened(folder)
        until(lambda: (folder / "saved" / "step-20").exists(), "nothing is saved")
        for victim in victims:
            processes[victim].kill()
        results = end_all(processes)
    return [result for process, result in enumerate(results) if process not in victims]


def losses_of(metrics):
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    return [line["loss"] for line in lines]


def went_on_from(said):
    """The smaller plan, and the last step of the checkpoint."""
    plan = Path(re.search(r"It was planned anew, as (\S+):", said)[1])
    step, saved = re.search(r"The run goes on with step (\d+), from (\S+)\.", said).groups()
    assert Path(saved).name == f"step-{int(step) - 1}"
    return plan, Path(saved)


def rounded(losses, rel=FLOAT32, near_one=NEAR_ONE):
    """These but for rounding."""
    return pytest.approx(losses, rel=rel, abs=near_one)


def assert_as_by_itself(plan, results, **rounding):
    """To the last bit: until the loss as undisturbed, after it as the smaller plan by itself; all
    of it as undisturbed but for rounding. Returns the step after which it changed."""
    folder = plan.parent
    assert [status for status, _, _ in results] == [0] * len(results), results
    said = "".join(errors for _, _, errors in results)
    smaller, saved = went_on_from(said)
    step = int(saved.name.removeprefix("step-"))
    found = losses_of(folder / "m.jsonl")
    undisturbed = execute_json(plan)["losses"]
    assert found[:step] == undisturbed[:step]
    again = execute_json(smaller, "--resume", saved, *SAVING, folder / "again")
    assert found[LOST_IN - 1:] == again["losses"][LOST_IN - 1 - step:]
    assert found == rounded(undisturbed, **rounding)
    for name in ("step-30", f"step-{STEPS}"):
        assert contents(folder / "saved" / name) == contents(folder / "again" / name)
    (output,) = [output for _, output, _ in results if output]
    assert json.loads(output)["ranks"] == ranks_of(smaller)
    assert json.loads(output)["predicted_step_s"] is not None
    return step


def ranks_of(plan):
    found = yaml.safe_load(plan.read_text())
    parts = found.get("data_parallel", 1) * found.get("tensor_parallel", 1)
    return parts * (1 + max(stage["rank"] for stage in found["stages"]))


@pytest.mark.parametrize("victim", range(3))
def test_a_run_goes_on_with_the_copies_of_partners_and_fewer_ranks(tmp_path, layers, victim):
    plan = endless_plan(tmp_path, steps=STEPS, optimizer=ADAMW, profile=layers)
    results = lose(plan, 3, [victim])
    assert assert_as_by_itself(plan, results) == LOST_IN - 1
    said = results[0][2]
    assert f"the penstock of rank {victim} is gone" in said
    assert re.search(r"before: 1f1b on 3 ranks, 4 microbatches of 4 samples, .* a step predicted\n",
                     said), said
    assert re.search(r"now:    \S+ on (1 rank|2 ranks|1 rank x 2 replicas), [124] microbatch(es)? "
                     r"of 4 samples, .* a step predicted\n", said), said
    assert "Losses are the same up to rounding." in said


def test_where_its_state_is_lost_with_the_last_checkpoint(tmp_path, layers):
    plan = endless_plan(tmp_path, steps=STEPS, optimizer=ADAMW, profile=layers)
    results = lose(plan, 3, [1], how="local")
    assert "Of its state there is only the last checkpoint." in results[0][2]
    assert assert_as_by_itself(plan, results) == 20


@pytest.mark.parametrize("victims", [[3], [1, 2]])
def test_replicas_have_the_state_of_those_that_are_lost(tmp_path, images, victims):
    """Two of four with the first are half of all, which goes on."""
    plan = replicas(tmp_path, images)
    results = lose(plan, 4, victims, how="local")
    assert assert_as_by_itself(plan, results) == LOST_IN - 1


def test_shared_out_optimizer_state_is_that_of_the_last_checkpoint(tmp_path, images):
    plan = replicas(tmp_path, images, optimizer_state="sharded")
    results = lose(plan, 4, [2])
    assert assert_as_by_itself(plan, results) == 20


def test_a_plan_for_nodes_goes_on_on_the_devices_that_are_left(tmp_path, layers):
    """Ranks, processes and devices are in three orders; the spare has the last device."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("penstock: cluster\nnodes:\n"
                       "- {count: 3, devices: 2, cores: 1, link: {bandwidth: 1GB/s}}\n"
                       "network: {latency: 50us}\n")
    plan = endless_plan(tmp_path, steps=STEPS, optimizer=ADAMW, profile=layers,
                        cluster={"path": str(cluster)}, devices=[3, 0, 2])
    # Rank 1 is on device 0, process 0, and so on.
    results = lose(plan, 4, [1, 2], "--spares", 1)
    assert_as_by_itself(plan, results)
    smaller = yaml.safe_load(went_on_from(results[0][2])[0].read_text())
    assert set(smaller["devices"]) <= {0, 4}
    assert smaller["cluster"]["path"] == "../cluster.yaml"


def test_tensor_groups_are_planned_anew_too(tmp_path):
    """In float64: which plan is best depends on what was measured, and with some that sum in other
    orders the training takes roundings of float32 further."""
    data = vectors(tmp_path, "x", 32, torch.float64)
    (tmp_path / "profile").mkdir()
    profile = measured(tmp_path / "profile", "pippy-f64", data, 16, "--tensor-parallel", "2")
    groups = json.loads(Path(profile["path"]).read_text())["groups"]
    plan = write_plan(tmp_path, model_path("pippy-f64"), data, ["", "layer1"], 4, 4, steps=STEPS,
                      optimizer=ADAMW, profile=profile, tensor_parallel=2,
                      sharding=groups[0].get("sharding", {}))
    step = assert_as_by_itself(plan, lose(plan, 4, [3]), rel=FLOAT64, near_one=FLOAT64)
    assert step == 20


def test_spares_come_first(tmp_path, layers):
    plan = endless_plan(tmp_path, optimizer=ADAMW, profile=layers)
    metrics, saved = tmp_path / "m.jsonl", tmp_path / "saved"
    with running(plan, 4, "--shrink", "--spares", 1, "--save", saved, how="peers") as (
            processes, environment):
        for victim in (1, 3, 2):  # process 3 has rank 1 by then
            until_more(metrics)
            processes[victim].kill()
        until_more(metrics)
        os.kill(processes_of(environment, "penstock-worker")[0], signal.SIGKILL)
        until_more(metrics)
        processes[0].send_signal(signal.SIGUSR1)
        results = end_all(processes)
    assert [status for status, _, _ in results] == [138, -9, -9, -9], results
    said = results[0][2]
    assert "Process 3, a spare, takes rank 1." in said
    assert re.findall(r"before: \S+ on (\d) ranks?", said)[0] == "3"
    assert (saved / "plan-1-ranks.yaml").exists()
    losses = losses_of(metrics)
    assert losses == rounded(execute_json(plan, "--steps", len(losses))["losses"])


def test_where_no_plan_fits_the_run_ends_and_is_saved(tmp_path, layers):
    """The ranks have what three need, which is too little for two."""
    plan = endless_plan(tmp_path, optimizer=ADAMW, profile=layers)
    simulated = subprocess.run([PENSTOCK, "simulate", plan, "--survive", "peers", "--json"],
                               capture_output=True, text=True, check=True, env=clean_environment())
    needed = max(json.loads(simulated.stdout)["peak_memory_bytes"])
    plan.write_text(plan.read_text() + f"memory_bytes: {needed}\n")
    results = lose(plan, 3, [1])
    assert [status for status, _, _ in results] == [1, 1], results
    said = results[0][2]
    assert re.search("There is no spare to take its place. The run cannot be planned anew: "
                     ".*no plan fits in .* per rank", said), said
    assert re.search(r"The last checkpoint is \S+/saved/step-2[34]\.", said), said
    assert not list((tmp_path / "saved").glob("plan-*"))


def test_under_srun(tmp_path, layers, request):
    plan = endless_plan(tmp_path, profile=layers)
    went_on_from(lose_under_srun(request, plan, 3, "--survive", "peers", "--shrink"))
    losses = losses_of(tmp_path / "m.jsonl")
    assert losses == rounded(execute_json(plan, "--steps", len(losses))["losses"])


def test_spares_need_devices_of_the_cluster(tmp_path, layers):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("penstock: cluster\nnodes:\n- {devices: 3}\n")
    plan = endless_plan(tmp_path, profile=layers, cluster={"path": str(cluster)},
                        devices=[0, 2, 1])
    command = [PENSTOCK, "execute", plan, "--shrink", "--survive", "local", "--spares", 1, "--save",
               tmp_path / "saved"]
    for status, _, errors in ranks_by_hand([command] * 4):
        assert status == 2 and "cluster.yaml has 0 devices behind those of" in errors, errors


def test_all_processes_have_to_be_given_it(tmp_path, layers):
    plan = endless_plan(tmp_path, profile=layers)
    command = [PENSTOCK, "execute", plan, "--survive", "local", "--save", tmp_path / "saved"]
    results = ranks_by_hand([[*command, "--shrink"], command, [*command, "--shrink"]])
    for status, _, errors in results:
        assert status == 2 and "fewer ranks: planned for on ranks 0, 2; not" in errors, errors
