"""penstock simulate with another cluster than the plan's, and with --set."""

import json
import re
import subprocess

import pytest
import yaml

from simulating import MODELS, PENSTOCK, STUDY, SYNTHETIC, TIMES, refused, run, simulated

ROOMY = "penstock: cluster\nranks: 4\nmemory: 1GiB\nlink: {latency: 1s, send: eager}\n"
NODES = """\
penstock: cluster
nodes:
  - {count: 2, devices: 1, memory: 64KiB, speed: 2, network: {bandwidth: 25GB/s}}
network: {latency: 1ms}
"""


@pytest.fixture
def planned(tmp_path):
    """A plan of two ranks, for a cluster of which it uses the last devices, with a memory limit."""
    model = MODELS / "transformer-text.pt2"
    if not model.exists():
        pytest.skip(f"{model} is missing: the tests export it with torch from .venv")
    subprocess.run([SYNTHETIC, model, tmp_path / "profile.json", "8", "1", "2"], check=True)
    (tmp_path / "roomy.yaml").write_text(ROOMY)
    (tmp_path / "nodes.yaml").write_text(NODES)
    plan = tmp_path / "plan.yaml"
    subprocess.run([PENSTOCK, "plan", tmp_path / "profile.json", "--ranks", "2", "--memory", "1GiB",
                    "--data-parallel", "1", "--schedule", "1f1b", "-o", plan], check=True,
                   capture_output=True, timeout=120)
    return plan


def test_another_cluster_takes_the_place_of_the_plans_links_speeds_and_memory(planned):
    before = planned.read_bytes()
    own = simulated(planned)
    done = run(planned, "--cluster", planned.parent / "nodes.yaml")
    assert done.returncode == 0, done.stderr
    assert f"plan.yaml on {planned.parent / 'nodes.yaml'}" in done.stdout
    assert "does not fit into 64.0 KiB per rank" in done.stderr
    roomy = simulated(planned, "--cluster", planned.parent / "roomy.yaml")
    assert roomy["step_s"] > own["step_s"] + 2  # a second there and one back at least
    assert roomy["memory_bytes"] == 2**30
    fast = simulated(planned, "--cluster", planned.parent / "nodes.yaml", "--memory", "1GiB")
    assert sum(fast["busy_s"]) == pytest.approx(sum(roomy["busy_s"]) / 2)  # speed: 2
    assert planned.read_bytes() == before


def test_the_page_names_the_other_cluster_and_what_was_set(planned):
    page = planned.parent / "page.html"
    assert run(planned, "--cluster", planned.parent / "roomy.yaml", "--set", "speed=2", "--html",
               page).returncode == 0
    text = page.read_text()
    assert "roomy.yaml: 4 ranks" in text and "speed=2" in text


def test_devices_of_the_plans_own_cluster_are_not_looked_for_in_another(planned):
    devices = {"cluster": {"path": "nodes.yaml"}, "devices": [1, 0]}
    planned.write_text(planned.read_text() + yaml.safe_dump(devices))
    assert run(planned).returncode == 0
    assert run(planned, "--cluster", planned.parent / "roomy.yaml").returncode == 0


def test_a_cluster_with_too_few_ranks_is_refused(planned):
    (planned.parent / "one.yaml").write_text("penstock: cluster\nranks: 1\n")
    message = refused(planned, "--cluster", planned.parent / "one.yaml")
    assert "the plan uses 2 ranks, but" in message and "one.yaml has 1" in message


def test_set_overrides_links_and_speed_of_profile_and_cluster(planned):
    own = simulated(planned)
    slow = simulated(planned, "--set", "links.latency=1s", "--set", "links.bandwidth=10GB/s")
    assert slow["step_s"] > own["step_s"] + 2
    roomy = [planned, "--cluster", planned.parent / "roomy.yaml"]  # transfers cost no compute there
    fast = simulated(*roomy, "--set", "speed=2")
    assert sum(fast["busy_s"]) == pytest.approx(sum(simulated(*roomy)["busy_s"]) / 2)
    on = ["--cluster", planned.parent / "nodes.yaml", "--memory", "1GiB"]
    far = simulated(planned, *on, "--set", "network.latency=1s", "--set", "network.bandwidth=1GB/s")
    assert far["step_s"] > simulated(planned, *on)["step_s"] + 1.9


def test_set_overrides_schedule_and_microbatches_of_the_same_global_batch(planned):
    shape = yaml.safe_load(planned.read_text())
    assert shape["schedule"] == "1f1b" and shape["job"]["global_batch"] == 8
    result = simulated(planned, "--set", "schedule=gpipe", "--set", "microbatches=8")
    assert result["microbatches"] == 8
    assert result["peak_activations"] == [8, 8]  # GPipe holds them all
    done = run(planned, "--set", "schedule=gpipe")
    assert "with schedule=gpipe" in done.stdout


def test_set_overrides_the_optimizers_state_as_the_plan_would_say_it(planned):
    replicas = planned.with_name("replicas.yaml")
    subprocess.run([PENSTOCK, "plan", planned.parent / "profile.json", "--ranks", "2",
                    "--data-parallel", "2", "-o", replicas], check=True, capture_output=True,
                   timeout=120)
    asked = simulated(replicas, "--set", "optimizer_state=sharded")
    own = simulated(replicas)
    assert max(asked["peak_memory_bytes"]) < max(own["peak_memory_bytes"])
    content = yaml.safe_load(replicas.read_text())
    replicas.write_text(yaml.safe_dump(content | {"optimizer_state": "sharded"}))
    said = simulated(replicas)
    assert asked["step_s"] == said["step_s"]
    assert asked["peak_memory_bytes"] == said["peak_memory_bytes"]
    back = simulated(replicas, "--set", "optimizer_state=replicated")
    assert back["step_s"] == own["step_s"]


@pytest.mark.parametrize("words, message", [
    (["links.bandwith=3"], "--set: there is no key `links.bandwith`"),
    (["links.bandwith=3"], "Did you mean links.bandwidth? Keys: schedule, microbatches, "
     "optimizer_state, speed, links.latency, links.bandwidth, network.latency, "
     "network.bandwidth."),
    (["memory=16GiB"], "--memory"),
    (["links.bandwidth=3parsec"], "--set links.bandwidth: `3parsec` has an unknown unit"),
    (["links.bandwidth=0"], "--set links.bandwidth: `0` moves nothing"),
    (["links.latency=fast"], "--set links.latency: `fast` "),
    (["speed=0"], "--set speed: `0` is not a number in 1e-06..1000000"),
    (["microbatches=1.5"], "--set microbatches: `1.5` is not an integer in 1..1000000"),
    (["microbatches=3"], "--set microbatches: global_batch 8 is not data_parallel 1 x microb"),
    (["microbatches=1"], "microbatch 8 was not measured"),
    (["schedule=1f2b"], "--set schedule: there is no schedule `1f2b`"),
    (["network.latency=1ms"], "--set network.latency: is between nodes, and there are none"),
    (["optimizer_state=shared"], "--set optimizer_state: `shared` is no way to hold the "),
    (["optimizer_state=sharded"], "--set optimizer_state: sharded over replicas, and there is one"),
    (["speed"], "--set speed: no value"),
    (["speed=2", "speed=3"], "--set speed: given twice"),
])
def test_a_bad_override_is_refused_with_key_value_and_cure(planned, words, message):
    assert message in refused(planned, *(word for pair in words for word in ("--set", pair)))


def as_measured(plan, change):
    """The plan's simulated trace, each compute action as long as `change` says."""
    path = plan.parent / "measured.json"
    assert run(plan, "--trace", path).returncode == 0
    trace = json.loads(path.read_text())
    for event in trace["penstock"]["events"]:
        if re.fullmatch(r"\d+[FBIW]\d+", event[1]):
            event[3] = event[2] + change(event)
    path.write_text(json.dumps(trace))
    return path


def test_measured_compute_takes_the_place_of_the_profiles(planned):
    same = as_measured(planned, lambda event: event[3] - event[2])
    step_s = simulated(planned)["step_s"]
    assert simulated(planned, "--measured", same)["step_s"] == pytest.approx(step_s)
    equal_s = simulated(planned, "--measured", as_measured(planned, lambda event: 10))["step_s"]
    # F and B of four microbatches and one more of each to fill and empty; the rest takes next to
    # nothing.
    assert equal_s == pytest.approx(2 * (4 + 1) * 10, rel=1e-3)
    longer = as_measured(planned, lambda event: 10 + 20 * (event[1] == "0F0"))
    longer_s = simulated(planned, "--measured", longer)["step_s"]
    assert longer_s == pytest.approx(equal_s + 20, rel=1e-3)
    far = simulated(planned, "--measured", longer, "--set", "links.latency=1s")
    assert far["step_s"] > longer_s + 1


@pytest.mark.parametrize("more, message", [
    (["--set", "speed=2"], "--set speed: does not go with --measured"),
    (["--samples", "10"], "--samples: does not go with --measured"),
    (["--set", "microbatches=8"], "measured.json: it has no 0F4 on rank 0")])
def test_measured_compute_is_of_this_plan_and_not_changed(planned, more, message):
    measured = as_measured(planned, lambda event: 1)
    assert message in refused(planned, "--measured", measured, *more)


def test_a_study_of_no_plan_has_nothing_measured(planned):
    measured = as_measured(planned, lambda event: 1)
    assert "--measured: is for plans" in refused(*STUDY, *TIMES, "--measured", measured)


def test_a_study_takes_links_speeds_and_memory_of_a_cluster(planned):
    cluster = planned.parent / "cluster.yaml"
    cluster.write_text("penstock: cluster\nnodes:\n- {devices: 4, speed: 2, memory: 3MB,"
                       " link: {bandwidth: 1GB/s}}\nsend: eager\n")
    study = [*STUDY, *TIMES, "--message", "1MB", "--saved", "1MB", "--cluster", cluster]
    done = run(*study)
    assert done.returncode == 0 and f"1f1b on {cluster}" in done.stdout
    assert "rank 0 needs 4.00 MB" in done.stderr or "rank 0 needs 3.81 MiB" in done.stderr
    # 8 x (1 + 2) ms at twice the speed; by hand, the last rank's input takes 3 ms more and 3 back.
    result = run(*study, "--json")
    assert '"busy_s":[0.012' in result.stdout
    for flags, place in ((["--bandwidth", "1GB/s"], "--bandwidth"), (["--set", "speed=2"], "--set"),
                         (["--latency", "1ms"], "--latency")):
        assert refused(*study, *flags).startswith(f"penstock: {place}: ")
    cluster.write_text("penstock: cluster\nranks: 3\n")
    assert "4 ranks, but" in refused(*study)
