"""penstock simulate of a plan: its profile and its cluster."""

import json
import subprocess

import pytest
import yaml

from simulating import MODELS, PENSTOCK, SYNTHETIC, refused, run, simulated


@pytest.fixture
def planned(tmp_path):
    """A plan of two stages, and the files that it names."""
    model = MODELS / "transformer-text.pt2"
    if not model.exists():
        pytest.skip(f"{model} is missing: the tests export it with torch from .venv")
    assert (subprocess.run([SYNTHETIC, model, tmp_path / "profile.json", "8", "1", "2"]).returncode
            == 0)
    plan = tmp_path / "plan.yaml"
    done = subprocess.run([PENSTOCK, "plan", tmp_path / "profile.json", "--ranks", "2",
                           "--data-parallel", "1", "--schedule", "1f1b,gpipe", "-o", plan],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return plan


def test_a_plan_is_simulated_with_its_profile(planned):
    result = simulated(planned)
    assert result["step_s"] == result["makespan_s"] > 0
    assert result["ranks"] == 2 and len(result["peak_memory_bytes"]) == 2
    done = run(planned)
    assert done.returncode == 0 and "bubble" in done.stdout and "rank 1 |" in done.stdout


def test_a_plan_whose_profile_has_changed_is_refused_with_both_fingerprints(planned):
    profile = planned.parent / "profile.json"
    written = planned.read_text()
    profile.write_text(profile.read_text() + "\n")
    message = refused(planned)
    shas = [word.strip(",") for word in message.split() if len(word.strip(",")) == 64]
    assert len(shas) == 2 and shas[0] in written and shas[1] not in written
    assert "profile.json" in message and "remove `sha256`" in message


def test_a_plan_without_a_profile_is_refused(planned):
    lines = [line for line in planned.read_text().splitlines() if not line.startswith("profile:")]
    planned.write_text("\n".join(lines) + "\n")
    assert "penstock profile" in refused(planned)


def test_a_slower_cluster_makes_the_step_longer(planned):
    (planned.parent / "slow.yaml").write_text(
        "penstock: cluster\nranks: 2\nmemory: 1KiB\n"
        "link: {latency: 1s, bandwidth: 1MB/s, send: eager}\n")
    before = simulated(planned)["step_s"]
    planned.write_text(planned.read_text() + "cluster: {path: slow.yaml}\n")
    done = run(planned, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["step_s"] > before + 2  # there and back at least once
    assert "does not fit into 1.00 KiB" in done.stderr


def test_replicas_count_among_the_ranks_of_a_cluster(planned):
    cluster = planned.parent / "small.yaml"
    cluster.write_text("penstock: cluster\nnodes:\n"
                       "  - {count: 1, devices: 2, link: {latency: 1us, bandwidth: 1GB/s},\n"
                       "     network: {cards: 1, bandwidth: 1GB/s}}\nnetwork: {latency: 1us}\n")
    text = planned.read_text().replace("data_parallel: 1", "data_parallel: 2", 1)
    microbatches = int(text.split("microbatches: ")[1].split("\n")[0])
    text = text.replace(f"microbatches: {microbatches}", f"microbatches: {microbatches // 2}", 1)
    planned.write_text(text + f"cluster: {{path: {cluster}}}\n")
    assert "4 ranks" in refused(planned)


def test_a_plan_of_replicas_says_that_one_of_them_is_simulated(planned):
    text = planned.read_text()
    assert " replicas" not in run(planned).stdout
    microbatches = int(text.split("microbatches: ")[1].split("\n")[0])
    text = text.replace("data_parallel: 1", "data_parallel: 2", 1)
    planned.write_text(text.replace(f"microbatches: {microbatches}",
                                    f"microbatches: {microbatches // 2}", 1))
    assert "plan.yaml: 1 of 2 replicas, 2 ranks, 2 stages, " in run(planned).stdout


def test_a_cluster_that_is_too_small_is_refused(planned):
    (planned.parent / "small.yaml").write_text("penstock: cluster\nranks: 1\n")
    planned.write_text(planned.read_text() + "cluster: {path: small.yaml}\n")
    message = refused(planned)
    assert "2 ranks" in message and "small.yaml has 1" in message


def test_a_step_is_no_shorter_than_hosts_that_are_behind_their_devices(planned):
    profile = planned.parent / "profile.json"
    costs = json.loads(profile.read_text())
    for size in costs["microbatches"]:
        for part in size["operators"] + size["units"]:
            for action in part["times"].values():
                action["host_s"] = 4 * action["mean_s"]
    profile.write_text(json.dumps(costs))
    done = subprocess.run([PENSTOCK, "plan", profile, "--ranks", "2", "--data-parallel", "1",
                           "--schedule", "1f1b", "-o", planned], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert "binding    launch: " in done.stdout
    result = simulated(planned)
    written = yaml.safe_load(planned.read_text())
    size = next(size for size in costs["microbatches"]
                if size["microbatch"] == written["microbatch"])
    issued_s = sum(op["times"][action]["host_s"] for op in size["operators"]
                   for action in ("forward", "backward"))
    # of two hosts, however they share it
    assert result["step_s"] >= written["microbatches"] * issued_s / 2
    assert result["critical_path"]["launch_s"] > 0
    assert sum(rank["launch_s"] for rank in result["idle"]) > 0


def sum_of(size, action, time):
    whole = sum(unit["times"][action][time] for unit in size["units"])
    return whole + (size["loss_forward"][time] if action == "forward" else 0)


def with_replays(profile, host_s):
    """As of a device that waits for its host, which takes four times as long; a replay takes as
    long as its kernels."""
    costs = json.loads(profile.read_text())
    for size in costs["microbatches"]:
        for part in size["operators"] + size["units"]:
            for action in part["times"].values():
                action["host_s"] = 4 * action["mean_s"]
    first = costs["microbatches"][0]
    costs["replays"] = [{"microbatch": first["microbatch"], "times": {
        action: {"mean_s": sum_of(first, action, "mean_s"), "median_s": 0, "spread_s": 0,
                 "repetitions": 2, "host_s": host_s}
        for action in ("forward", "backward", "backward_input", "backward_weight")}}]
    profile.write_text(json.dumps(costs))
    return costs


def test_steps_are_simulated_as_cuda_graphs_where_the_profile_found_these_faster(planned):
    profile = planned.parent / "profile.json"
    without = simulated(planned)["step_s"]
    plan = yaml.safe_load(planned.read_text())
    del plan["profile"]["sha256"]
    planned.write_text(yaml.safe_dump(plan))
    with_replays(profile, host_s=1e-9)
    # hosts that are never behind cost nothing
    assert simulated(planned)["step_s"] == pytest.approx(without, rel=1e-9)
    assert simulated(planned, "--cuda-graphs", "on")["step_s"] == simulated(planned)["step_s"]
    assert simulated(planned, "--cuda-graphs", "off")["step_s"] > 2 * without
    with_replays(profile, host_s=1e3)
    assert simulated(planned)["step_s"] == simulated(planned, "--cuda-graphs", "off")["step_s"]


def test_plans_are_made_for_cuda_graphs_unless_they_are_off(planned):
    profile, steps = planned.parent / "profile.json", {}
    with_replays(profile, host_s=1e-9)
    for graphs in ("auto", "off"):
        done = subprocess.run([PENSTOCK, "plan", profile, "--ranks", "2", "--data-parallel", "1",
                               "--schedule", "1f1b", "--cuda-graphs", graphs, "-o", planned],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert ("binding    launch: " in done.stdout) == (graphs == "off")
        steps[graphs] = simulated(planned, "--cuda-graphs", graphs)["step_s"]
    assert steps["auto"] < steps["off"] / 2


def test_cuda_graphs_of_which_the_profile_says_nothing_are_refused(planned):
    done = subprocess.run([PENSTOCK, "simulate", planned, "--cuda-graphs", "on"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "the profile has no times of CUDA graphs" in done.stderr
    done = subprocess.run([PENSTOCK, "simulate", planned, "--cuda-graphs", "maybe"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "`maybe` is none of auto, on, off" in done.stderr


def test_a_host_time_below_zero_is_refused(planned):
    profile = planned.parent / "profile.json"
    costs = json.loads(profile.read_text())
    costs["action_host_s"] = -1
    profile.write_text(json.dumps(costs))
    done = subprocess.run([PENSTOCK, "plan", profile, "--ranks", "2", "-o", planned],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "action_host_s" in done.stderr and "-1 is negative" in done.stderr
