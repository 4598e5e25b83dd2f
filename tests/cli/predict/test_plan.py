"""penstock plan: what it prints and writes, that simulating the file gives its prediction."""

import json
import re

import pytest
import yaml

from planning import PENSTOCK, begins, make_profile, plan, prediction, run


def test_prints_what_was_searched_the_stages_and_the_bound(tmp_path):
    done = plan(tmp_path, make_profile(tmp_path, "transformer-text"), "--ranks", 2, "--verbose")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in ["searched", "gpipe", "1f1b", "least memory", "rank  modules", "tok_embeddings",
                 "output", "predicted", "samples/s", "bubble", "bound", "written"]:
        assert text in done.stdout
    assert len(re.findall(r"^ *\* ", done.stdout, re.M)) == 1  # the chosen one


def test_simulating_the_plan_gives_its_prediction_exactly(tmp_path):
    assert plan(tmp_path, make_profile(tmp_path, "everything"), "--ranks", 3,
                "--allow-batch-coupling").returncode == 0
    path = tmp_path / "plan.yaml"
    done = run(PENSTOCK, "simulate", path, "--json")
    assert done.returncode == 0, done.stderr
    simulated = json.loads(done.stdout)
    assert simulated["step_s"] == float(prediction(path, "step_s"))
    assert simulated["bubble"] == float(prediction(path, "bubble"))
    peaks = json.loads(re.search(r"peak_memory_bytes: (\[.*?\])", path.read_text()).group(1))
    assert simulated["peak_memory_bytes"] == peaks
    assert float(prediction(path, "lower_bound_s")) <= simulated["step_s"]


def test_two_runs_write_the_same_bytes(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    first, second = (plan(tmp_path, profile, "--ranks", 3) for _ in range(2))
    assert first.stdout == second.stdout
    content = (tmp_path / "plan.yaml").read_bytes()
    plan(tmp_path, profile, "--ranks", 3)
    assert (tmp_path / "plan.yaml").read_bytes() == content


@pytest.mark.parametrize("way, words", [("replicate", "replicated, gradients summed"),
                                        ("transmit", "transmitted by the rank of the first")])
def test_shared_parameters_go_the_way_that_was_asked_for(tmp_path, way, words):
    profile = make_profile(tmp_path, "iterative")
    done = plan(tmp_path, profile, "--split", "iter_block@1:end", "--shared-parameters", way)
    assert done.returncode == 0, done.stderr
    assert f"2 parameters of several stages (as iter_block.0.bias): {words}" in done.stdout
    written = yaml.safe_load((tmp_path / "plan.yaml").read_text())
    assert written["shared_parameters"] == {"iter_block.0.bias": way, "iter_block.0.weight": way}
    simulated = json.loads(run(PENSTOCK, "simulate", tmp_path / "plan.yaml", "--json").stdout)
    assert simulated["step_s"] == float(prediction(tmp_path / "plan.yaml", "step_s"))
    done = plan(tmp_path, profile, "--shared-parameters", "transmitt")
    assert done.returncode == 2
    assert "`transmitt`" in done.stderr and "Did you mean transmit?" in done.stderr


def test_paths_are_relative_to_the_plan_wherever_the_command_runs(tmp_path):
    make_profile(tmp_path, "pippy")
    (tmp_path / "plans").mkdir()
    done = run(PENSTOCK, "plan", "../pippy.json", "-o", "mine.yaml", cwd=tmp_path / "plans")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "plans" / "mine.yaml").read_text()
    assert "profile: {path: ../pippy.json" in text
    assert run(PENSTOCK, "simulate", tmp_path / "plans" / "mine.yaml").returncode == 0


@pytest.mark.parametrize("name, split, expected", [
    ("pippy", ["--split", "layer0:end,layer1:end"], ["", "layer1", "layer2"]),
    ("pippy", ["--split", "layer0:end", "--split", "layer2:beginning"], ["", "layer1", "layer2"]),
    ("iterative", ["--split", "iter_block:end"],
     ["", "iter_block@1", "iter_block@2", "output_proj"]),
    ("iterative", ["--split", "iter_block@1:end"], ["", "iter_block@2"]),
])
def test_manual_splits(tmp_path, name, split, expected):
    done = plan(tmp_path, make_profile(tmp_path, name), "--microbatches", 4, *split)
    assert done.returncode == 0, done.stderr
    assert begins(tmp_path / "plan.yaml") == expected
    for begin in expected[1:]:
        assert f" {begin}" in done.stdout  # the stages' modules, as people name them
    assert "microbatches: 4" in (tmp_path / "plan.yaml").read_text()
    assert ("shared_parameters" in (tmp_path / "plan.yaml").read_text()) == (name == "iterative")


@pytest.mark.parametrize("schedules",
                         [["gpipe"], ["1f1b", "gpipe"], ["zbv", "interleaved-1f1b"], ["adaptive"]])
def test_searches_the_schedules_asked_for(tmp_path, schedules):
    done = plan(tmp_path, make_profile(tmp_path, "pippy"), "--schedule", ",".join(schedules),
                "--data-parallel", 1, "--microbatches", "auto", "--verbose")
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ *\*? +(\S+) +1 x \d ", done.stdout, re.M)
    assert set(rows) == set(schedules)
    simulated = run(PENSTOCK, "simulate", tmp_path / "plan.yaml", "--json")
    assert (json.loads(simulated.stdout)["step_s"]
            == float(prediction(tmp_path / "plan.yaml", "step_s")))


def test_a_manual_split_goes_with_a_schedule_of_two_stages_per_rank(tmp_path):
    profile = make_profile(tmp_path, "pippy")
    done = plan(tmp_path, profile, "--schedule", "zbv", "--microbatches", 4, "--split",
                "layer0:end,layer1:end,layer2:end")
    assert done.returncode == 0, done.stderr
    content = yaml.safe_load((tmp_path / "plan.yaml").read_text())
    assert [stage["rank"] for stage in content["stages"]] == [0, 1, 1, 0]
    odd = plan(tmp_path, profile, "--schedule", "zbv", "--split", "layer0:end,layer1:end")
    assert odd.returncode == 2 and "3 stages, which are not 2 for each rank" in odd.stderr


def test_uses_no_more_than_was_asked_for(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    for flags, ranks, replicas, stages in [
            (["--data-parallel", 3, "--ranks", 3], 1, 3, 1),
            (["--data-parallel", 1, "--ranks", 1], 1, 1, 1),
            (["--stages-per-rank", 2, "--data-parallel", 1, "--ranks", 2], 2, 1, 4)]:
        done = plan(tmp_path, profile, *flags, "--microbatches", "auto") if replicas != 3 else \
            plan(tmp_path, make_profile(tmp_path, "transformer-text", 12), *flags)
        assert done.returncode == 0, done.stderr
        content = yaml.safe_load((tmp_path / "plan.yaml").read_text())
        assert content["data_parallel"] == replicas
        assert len({stage["rank"] for stage in content["stages"]}) == ranks
        assert len(content["stages"]) == stages


def test_each_objective_is_best_at_its_own(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    step, memory, cost = {}, {}, {}
    for objective in ("throughput", "memory", "cost"):
        assert plan(tmp_path, profile, "--ranks", 2, "--objective", objective, "--schedule",
                    "gpipe,1f1b").returncode == 0
        content = yaml.safe_load((tmp_path / "plan.yaml").read_text())
        step[objective] = content["prediction"]["step_s"]
        memory[objective] = max(content["prediction"]["peak_memory_bytes"])
        ranks = len({stage["rank"] for stage in content["stages"]}) * content["data_parallel"]
        cost[objective] = step[objective] * ranks
    assert min(step, key=step.get) == "throughput"
    assert memory["memory"] < memory["throughput"] and memory["memory"] <= memory["cost"]
    assert cost["cost"] == min(cost.values())


def test_explains_why_the_alternatives_lost_and_what_would_help(tmp_path):
    done = plan(tmp_path, make_profile(tmp_path, "transformer-text"), "--ranks", 2,
                "--data-parallel", 1, "--explain", "--schedule", "gpipe,1f1b,zb-h1")
    assert done.returncode == 0, done.stderr
    step = float(prediction(tmp_path / "plan.yaml", "step_s"))
    for words in ("alternative", "slower", "lost to", "ramp", "links of twice the bandwidth",
                  "1 GB more memory per rank"):
        assert words in done.stdout, words
    changes = [float(x) for x in re.findall(r"with .*?\(([-+][\d.]+) %\)", done.stdout)]
    # printed with two digits
    assert len(changes) == 2 and all(change <= 0.005 for change in changes)
    assert step > 0


def test_says_what_keeps_a_step_from_its_bound(tmp_path):
    done = plan(tmp_path, make_profile(tmp_path, "transformer-text"), "--ranks", 3,
                "--schedule", "zbv")
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("binding"))
    assert re.match(r"binding    compute: of the ranks' time [\d.]+ % is work; .*ramp [\d.]+ %",
                    line)
    shares = [float(share) for share in re.findall(r"(-?[\d.]+) %", line)]
    assert abs(sum(shares) - 100) < 0.3, line  # each rounded to 0.05, and those below that left out


def test_the_page_of_a_plan_is_that_of_its_simulation(tmp_path):
    page = tmp_path / "plan.html"
    assert plan(tmp_path, make_profile(tmp_path, "pippy"), "--html", page).returncode == 0
    assert run(PENSTOCK, "simulate", tmp_path / "plan.yaml",
               "--html", tmp_path / "same.html").returncode == 0
    assert page.read_bytes() == (tmp_path / "same.html").read_bytes()


def test_memory_takes_units_and_limits_every_rank(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    assert plan(tmp_path, profile, "--memory", "1MiB").returncode == 0
    free = json.loads(re.search(r"peak_memory_bytes: (\[.*?\])",
                                (tmp_path / "plan.yaml").read_text()).group(1))
    limit = max(free) - 1
    assert plan(tmp_path, profile, "--memory", limit).returncode == 0
    less = json.loads(re.search(r"peak_memory_bytes: (\[.*?\])",
                                (tmp_path / "plan.yaml").read_text()).group(1))
    assert max(less) <= limit


MIXED = """penstock: cluster
nodes:
  - {devices: 2, device: slow card, speed: 0.1, link: {latency: 1us, bandwidth: 10GB/s}}
  - {devices: 2, device: fast card, link: {latency: 1us, bandwidth: 10GB/s}}
network: {latency: 2us}
"""


def test_says_which_devices_of_a_mixed_cluster_run_which_rank(tmp_path):
    cluster = tmp_path / "mixed.yaml"
    cluster.write_text(MIXED)
    done = plan(tmp_path, make_profile(tmp_path, "pippy"), "--cluster", cluster, "--ranks", 2,
                "--data-parallel", 1)
    assert done.returncode == 0, done.stderr
    assert "rank  devices of its replicas (node.device)" in done.stdout
    assert "fast card 1.0" in done.stdout and "slow card" not in done.stdout
    written = yaml.safe_load((tmp_path / "plan.yaml").read_text())
    assert written["devices"] == [2, 3]
    simulated = run(PENSTOCK, "simulate", tmp_path / "plan.yaml", "--json")
    assert json.loads(simulated.stdout)["step_s"] == written["prediction"]["step_s"]


def test_simulate_refuses_devices_that_the_cluster_has_not(tmp_path):
    cluster = tmp_path / "mixed.yaml"
    cluster.write_text(MIXED)
    plan(tmp_path, make_profile(tmp_path, "pippy"), "--cluster", cluster, "--ranks", 2,
         "--data-parallel", 1)
    text = (tmp_path / "plan.yaml").read_text()
    (tmp_path / "other.yaml").write_text(text.replace("devices: [2, 3]", "devices: [2, 4]"))
    done = run(PENSTOCK, "simulate", tmp_path / "other.yaml")
    assert done.returncode == 2
    assert "uses device 4" in done.stderr and "has 4" in done.stderr and "`devices`" in done.stderr


@pytest.mark.parametrize("sums, written", [
    ("", "{bucket: 25000000, overlap: true}"),
    ("all_reduce: {bucket: 1MB, overlap: false}\n", "{bucket: 1000000, overlap: false}")],
    ids=["default", "given"])
def test_a_plan_sums_gradients_as_its_cluster_says(tmp_path, sums, written):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(f"penstock: cluster\nranks: 2\nlink: {{bandwidth: 1GB/s}}\n{sums}")
    done = plan(tmp_path, make_profile(tmp_path, "pippy"), "--cluster", cluster, "--ranks", 2,
                "--data-parallel", 2)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "plan.yaml"
    assert f"all_reduce: {written}\n" in path.read_text()
    done = run(PENSTOCK, "simulate", path, "--json")
    assert json.loads(done.stdout)["step_s"] == float(prediction(path, "step_s"))


def test_takes_ranks_and_link_from_a_cluster(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("penstock: cluster\nranks: 3\nmemory: 1GiB\n"
                       "link: {latency: 1us, bandwidth: 10GB/s}\n")
    done = plan(tmp_path, make_profile(tmp_path, "pippy"), "--cluster", cluster)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "plan.yaml").read_text()
    assert len(begins(tmp_path / "plan.yaml")) == 3
    assert "cluster: {path: cluster.yaml, sha256: " in text
    simulated = json.loads(run(PENSTOCK, "simulate", tmp_path / "plan.yaml", "--json").stdout)
    assert float(simulated["step_s"]) == float(prediction(tmp_path / "plan.yaml", "step_s"))


def test_with_a_cluster_both_ways_to_hold_the_optimizers_state_are_searched(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("penstock: cluster\nranks: 2\nlink: {bandwidth: 1GB/s}\n")
    profile = make_profile(tmp_path, "pippy")
    flags = ["--ranks", 2, "--data-parallel", 2, "--verbose"]
    assert "sharded state" in plan(tmp_path, profile, "--cluster", cluster, *flags).stdout
    for alone in ([], ["--cluster", cluster, "--optimizer-state", "replicated"]):
        assert "sharded state" not in plan(tmp_path, profile, *alone, *flags).stdout
