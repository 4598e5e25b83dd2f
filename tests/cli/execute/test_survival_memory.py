"""The memory of runs that survive: what is predicted is what lies in the slots, plans leave room
for it, and a run that would not fit does not begin."""

import hashlib
import json
import subprocess

import pytest
import yaml

from pipelines import PENSTOCK, ROOT, clean_environment, execute_json, needs_backend
from running import running
from safetensors import safe_open
from surviving import all_hang, fault_list, slots_of, survive, until_they_happened
from test_survival import ADAMW, KINDS
from trainings import FOUR, plan_of

pytestmark = needs_backend

COUNTED = 3  # the two latest, and one that is being written to a disk


def penstock(*words):
    done = subprocess.run([PENSTOCK, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def profiled(folder, job):
    job.pop("steps")
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({"penstock": "job", "steps": 3} | job))
    penstock("profile", path, "--quick", "--budget", "0s", "-o", folder / "profile.json")
    return folder / "profile.json"


def predicted(path):
    """Bytes of a snapshot, by rank of a replica."""
    plan = yaml.safe_load(path.read_text())
    profile = profiled(path.parent, dict(plan["job"]))
    plan["profile"] = {"path": str(profile),
                       "sha256": hashlib.sha256(profile.read_bytes()).hexdigest()}
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    found = json.loads(penstock("simulate", path, "--survive", "local", "--json"))
    snapshots = [rank["snapshot_bytes"] for rank in found["peak_memory"]]
    without = json.loads(penstock("simulate", path, "--json"))
    assert found["peak_memory_bytes"] == [
        peak + more for peak, more in zip(without["peak_memory_bytes"], snapshots, strict=True)]
    assert all(count % COUNTED == 0 for count in snapshots)
    return [count // COUNTED for count in snapshots]


def bytes_in(slot):
    with safe_open(slot, "pt") as file:
        return sum(file.get_tensor(name).nbytes for name in file.keys())  # noqa: SIM118


INTERLEAVED = {"interleaved": lambda folder: plan_of(
    folder, "gpt2", FOUR, ADAMW, ranks=[0, 1, 0, 1], schedule="interleaved-1f1b")}


@pytest.mark.parametrize("make", [pytest.param(make, id=kind) for kind, make in
                                  (KINDS | INTERLEAVED).items()])
def test_what_is_predicted_is_what_lies_in_the_slots(tmp_path, make):
    plan = make(tmp_path)
    expected = predicted(plan)
    with running(plan, "--survive", "local", PENSTOCK_HANG_AFTER="1h",
                 **fault_list(tmp_path, all_hang(plan, 4))) as process:
        until_they_happened(tmp_path)
        slots = [bytes_in(slot) for rank in slots_of(process) for slot in rank[:2]]
    replicas = yaml.safe_load(plan.read_text()).get("data_parallel", 1)
    assert slots == [count for count in expected * replicas for _ in range(2)]


def test_a_plan_leaves_room_for_it(tmp_path):
    job = yaml.safe_load(plan_of(tmp_path, "gpt2", ["", "transformer.h.0"], ADAMW).read_text())
    profile, plan = profiled(tmp_path, dict(job["job"])), tmp_path / "planned.yaml"
    words = "plan", profile, "--ranks", 2, "--data-parallel", 1, "-o", plan
    said = penstock(*words, "--survive", "local", "--html", tmp_path / "planned.html")
    assert f"penstock execute {plan} --survive local" in said
    penstock("simulate", plan, "--survive", "local", "--html", tmp_path / "simulated.html")
    pages = [(tmp_path / name).read_text() for name in ("planned.html", "simulated.html")]
    assert pages[0] == pages[1]
    peaks = json.loads(penstock("simulate", plan, "--survive", "local", "--json"))
    limit = max(peaks["peak_memory_bytes"]) * 19 // 20
    penstock(*words, "--survive", "local", "--memory", limit)
    peaks = json.loads(penstock("simulate", plan, "--survive", "local", "--json"))
    assert max(peaks["peak_memory_bytes"]) <= limit


def test_the_copies_of_a_partner_are_counted(tmp_path):
    job = yaml.safe_load(plan_of(tmp_path, "gpt2", ["", "transformer.h.0"], ADAMW).read_text())
    profile, plan = profiled(tmp_path, dict(job["job"])), tmp_path / "planned.yaml"
    said = penstock("plan", profile, "--split", "transformer.h.0:beginning", "--survive", "peers",
                    "-o", plan)
    assert f"penstock execute {plan} --survive peers" in said
    local, peers = (json.loads(penstock("simulate", plan, "--survive", how, "--json"))
                    for how in ("local", "peers"))
    for one, other in zip(local["peak_memory"], peers["peak_memory"], strict=True):
        assert one["snapshot_bytes"] * 5 == other["snapshot_bytes"] * 3 > 0


def short_of_memory(folder, *words):
    """The command where the system says that 64 KiB are left."""
    (folder / "meminfo").write_text("MemTotal:  2048 kB\nMemAvailable:  64 kB\n")
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c",
         'mount --bind "$0" /proc/meminfo && exec "$@"', folder / "meminfo",
         *map(str, (PENSTOCK, *words))], capture_output=True, text=True, check=False,
        env=clean_environment())


needs_mounts = pytest.mark.skipif(
    subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True,
                   check=False).returncode != 0, reason="this system allows no mounts")


@needs_mounts
@pytest.mark.parametrize(("options", "copies"), [([], 2), (["--save", "saved"], 3)])
def test_a_run_that_does_not_fit_does_not_begin(tmp_path, options, copies):
    plan = plan_of(tmp_path, "gpt2", ["", "transformer.h.0"], ADAMW)
    done = short_of_memory(tmp_path, "execute", plan, "--survive", "local", *options)
    assert done.returncode == 2 and f"for {copies} copies of their state" in done.stderr
    assert "but 64.0 KiB are available\n  Leave it out:" in done.stderr
    assert not (tmp_path / "saved").exists()


@needs_mounts
def test_copies_of_ranks_on_gpus_take_memory_of_the_host_alone(tmp_path):
    plan = plan_of(tmp_path, "gpt2", ["", "transformer.h.0"], ADAMW)
    done = short_of_memory(tmp_path, "execute", plan, "--survive", "local", "--device", "cuda")
    assert done.returncode == 2 and "to train" not in done.stderr
    assert "for 2 copies of their state, but 64.0 KiB are available" in done.stderr
    job, profile = tmp_path / "job.yaml", tmp_path / "h100.json"
    job.write_text(yaml.safe_dump({"penstock": "job"} | yaml.safe_load(plan.read_text())["job"]))
    penstock("profile", job, "--device", "estimate", "--spec", ROOT / "configs/devices/h100.yaml",
             "-o", profile)
    planned = tmp_path / "planned.yaml"
    penstock("plan", profile, "--ranks", 2, "-o", planned)
    found, other = (json.loads(penstock("simulate", planned, "--json", *words))["peak_memory"]
                    for words in ([], ["--survive", "local"]))
    assert found == other


@needs_mounts
def test_auto_is_local_where_that_fits(tmp_path):
    plan = plan_of(tmp_path, "gpt2", ["", "transformer.h.0"], ADAMW)
    whole = execute_json(plan)["losses"]
    done, happened = survive(plan, faults=["1 2 1 kill"], how="auto")
    assert done.returncode == 0 and len(happened) == 1, done.stderr
    assert json.loads(done.stdout)["losses"] == whole
    done = short_of_memory(tmp_path, "execute", plan, "--survive", "auto", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["losses"] == whole
    assert "a failure of a rank ends the run (--survive auto): the ranks need" in done.stderr


LAYERS = """penstock: layers
global_batch: 8
microbatch: 1
layers:
  - {name: block, count: 4, forward: 1ms, backward: 2ms, static: 1MB, saved: 1MB, output: 1KB}
"""


@pytest.mark.parametrize(("words", "told"), [
    (["plan", "layers.yaml", "-o", "plan.yaml"], "a table of layers does not say"),
    (["simulate", "--ranks", 2, "--schedule", "1f1b", "--microbatches", 4], "is for plans")])
def test_what_no_snapshots_are_known_of_is_refused(tmp_path, words, told):
    (tmp_path / "layers.yaml").write_text(LAYERS)
    done = subprocess.run([PENSTOCK, *map(str, words), "--survive", "local"], capture_output=True,
                          text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2 and f"--survive: {told}" in done.stderr
    assert not (tmp_path / "plan.yaml").exists()
