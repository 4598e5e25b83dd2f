"""Tables of layers: planned, simulated, shown and exported; what needs a model says so."""

import re
import subprocess

import pytest
import yaml

from simulating import MODELS, PENSTOCK, SYNTHETIC

CONFIGS = PENSTOCK.parent.parent / "configs" / "layers"

TABLE = """\
penstock: layers
global_batch: 8
microbatch: 1
layers:
  - {name: embedding, forward: 1ms, backward: 2ms, static: 40MB}
  - {name: block, count: 6, forward: 10ms, backward: 20ms, static: 10MB, saved: 9MB, output: 1MB,
     recompute: [{name: full, time: 10ms, saved: 1MB}, {name: half, time: 4ms, saved: 5MB}]}
  - {name: head, forward: 2ms, backward: 4ms, static: 40MB}
"""


def run(folder, *arguments, status=0):
    done = subprocess.run([str(PENSTOCK), *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, cwd=folder)
    assert done.returncode == status, done.stderr + done.stdout
    return done.stderr if status else done.stdout


@pytest.fixture
def table(tmp_path):
    (tmp_path / "layers.yaml").write_text(TABLE)
    return tmp_path


def planned(folder, *arguments):
    out = run(folder, "plan", "layers.yaml", "--ranks", 2, "--schedule", "1f1b", *arguments, "-o",
              "plan.yaml")
    return out, yaml.safe_load((folder / "plan.yaml").read_text())


def test_a_plan_names_the_table_and_simulates_to_its_prediction(table):
    out, plan = planned(table)
    assert "table of layers" in out and "penstock simulate plan.yaml" in out
    assert plan["layers"]["path"] == "layers.yaml" and "job" not in plan
    assert [stage["begin"] for stage in plan["stages"]] == ["", "block.3"]
    # Warm-up and cool-down of the second rank, and its own eight microbatches.
    step_s = plan["prediction"]["step_s"]
    assert step_s == pytest.approx(8 * 0.096 + 0.093)
    shown = run(table, "simulate", "plan.yaml", "--json")
    assert f'"step_s": {step_s}' in shown or f'"step_s":{step_s}' in shown


def test_layers_choose_what_to_recompute_where_memory_is_short(table):
    _, plan = planned(table, "--memory", "120MB", "--fastest")
    chosen = [stage.get("recompute", {}) for stage in plan["stages"]]
    assert any(chosen)
    assert set().union(*chosen) <= {"full", "half"}
    assert max(plan["prediction"]["peak_memory_bytes"]) <= 120e6
    names = {f"block.{number}" for number in range(6)}
    assert all(set(layers) <= names for choices in chosen for layers in choices.values())
    assert "(recomputes" in run(table, "show", "plan.yaml")


def test_what_does_not_fit_says_how_much_would(table):
    message = run(table, "plan", "layers.yaml", "--ranks", 2, "--memory", "50MB", "-o", "p.yaml",
                  status=2)
    assert "50.0 MB" in message or "47.7 MiB" in message
    assert not (table / "p.yaml").exists()


def test_where_only_adaptive_fits_which_is_left_out_of_large_layouts_its_flags_are_named(tmp_path):
    (tmp_path / "layers.yaml").write_text("""\
penstock: layers
global_batch: 128
microbatch: 1
layers:
  - {name: block, count: 8, forward: 10ms, backward_input: 10ms, backward_weight: 10ms,
     static: 40MB, saved: 10MB, output: 1MB}
""")
    words = ["plan", "layers.yaml", "--ranks", 8, "--memory", "75MB"]
    message = run(tmp_path, *words, "-o", "p.yaml", status=2)
    flags = "--schedule adaptive --microbatches 128 --data-parallel 1 --stages-per-rank 1"
    assert f"(--memory), or with {flags}." in message
    run(tmp_path, *words, *flags.split(), "-o", "p.yaml")


def test_what_does_not_fit_on_the_nodes_of_a_cluster_names_no_more_ranks_than_they_have(table):
    (table / "cluster.yaml").write_text("""\
penstock: cluster
nodes: [{count: 1, devices: 2, memory: 50MB, link: {latency: 1us, bandwidth: 100GB/s}}]
""")
    message = run(table, "plan", "layers.yaml", "--cluster", "cluster.yaml", "-o", "p.yaml",
                  status=2)
    assert "no plan fits" in message and "per rank (--memory)" in message
    assert "ranks with as much each" not in message


def test_a_hand_written_choice_counts_and_mistakes_in_it_are_named(table):
    _, plan = planned(table)
    before = plan["prediction"]["step_s"]
    plan["stages"][1]["recompute"] = {"full": ["block.3"]}
    (table / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    step_s = float(re.search(r'"step_s": ?([0-9.e-]+)',
                             run(table, "simulate", "plan.yaml", "--json"))[1])
    assert step_s == pytest.approx(before + 8 * 0.010)
    for choices, problem in [({"full": ["block.0"]}, "no layer `block.0`"),
                             ({"none": ["block.3"]}, "no choice `none`"),
                             ({"full": ["block.3"], "half": ["block.3"]}, "two choices")]:
        plan["stages"][1]["recompute"] = choices
        (table / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
        assert problem in run(table, "simulate", "plan.yaml", status=2)


def test_more_samples_than_can_be_counted_are_refused(table):
    planned(table)
    plan = (table / "plan.yaml").read_text()
    plan = re.sub(r"microbatches: \d+", "microbatches: 1000000", plan)
    plan = re.sub(r"microbatch: \d+", "microbatch: 1000000000", plan)
    (table / "plan.yaml").write_text(plan)
    said = run(table, "simulate", "plan.yaml", status=2)
    assert "microbatches: a step has more than 1000000000 samples" in said


def test_another_table_than_the_plans_is_refused(table):
    planned(table)
    (table / "layers.yaml").write_text(TABLE.replace("40MB", "41MB"))
    assert "the plan was made" in run(table, "simulate", "plan.yaml", status=2)


def test_what_needs_a_model_says_so(table):
    planned(table)
    assert "execute needs a model" in run(table, "execute", "plan.yaml", status=2)
    for kind in ["torch-split", "torchtitan", "deepspeed", "state-dict"]:
        message = run(table, "export", "plan.yaml", "--format", kind, "-o", "out", status=2)
        assert f"{kind} needs a model" in message
    assert not (table / "out").exists()


def test_megatron_gets_its_layout(table):
    planned(table)
    run(table, "export", "plan.yaml", "--format", "megatron", "-o", "line")
    assert "--pipeline-model-parallel-layout 'Et*3|t*3L'" in (table / "line").read_text()
    run(table, "export", "plan.yaml", "--format", "torch-csv", "-o", "schedule.csv")
    assert (table / "schedule.csv").read_text().startswith("0F0")


def test_show_tells_the_rows(table):
    out = run(table, "show", "layers.yaml")
    assert re.search(r"block +6 +10\.0 ms +20\.0 ms", out)
    assert "penstock plan layers.yaml" in out


def test_schedules_that_divide_backwards_need_its_parts(table):
    message = run(table, "plan", "layers.yaml", "--schedule", "zb-h1", "-o", "p.yaml", status=2)
    assert "backward_weight" in message
    parts = TABLE.replace("backward: 2ms", "backward_input: 1ms, backward_weight: 1ms")
    parts = parts.replace("backward: 20ms", "backward_input: 10ms, backward_weight: 10ms")
    parts = parts.replace("backward: 4ms", "backward_input: 2ms, backward_weight: 2ms")
    (table / "layers.yaml").write_text(parts)
    run(table, "plan", "layers.yaml", "--schedule", "zb-h1", "--ranks", 2, "-o", "p.yaml")


@pytest.mark.parametrize("name", ["gpt_96.yaml", "moe_62.yaml"])
def test_the_projects_own_tables_are_shown(name, tmp_path):
    assert "layers" in run(tmp_path, "show", CONFIGS / name)


@pytest.mark.parametrize("name", ["gpt2", "t5", "lstm", "nested", "resnet"])
def test_the_table_of_a_profile_is_one_whatever_the_model_holds(name, tmp_path):
    model = MODELS / f"{name}.pt2"
    if not model.exists():
        pytest.skip(f"{model} is missing: the tests export it with torch from .venv")
    subprocess.run([SYNTHETIC, model, tmp_path / "profile.json", "8", "1", "2", "4"], check=True)
    (tmp_path / "layers.yaml").write_text(run(tmp_path, "show", "profile.json", "--layers"))
    run(tmp_path, "show", "layers.yaml")


def test_a_profile_becomes_a_table_with_the_same_compute(tmp_path):
    model = MODELS / "transformer-text.pt2"
    if not model.exists():
        pytest.skip(f"{model} is missing: the tests export it with torch from .venv")
    subprocess.run([SYNTHETIC, model, tmp_path / "profile.json", "8", "2", "4"], check=True)
    (tmp_path / "layers.yaml").write_text(run(tmp_path, "show", "profile.json", "--layers"))
    table = yaml.safe_load((tmp_path / "layers.yaml").read_text())
    assert [size["microbatch"] for size in table["sizes"]] == [2, 4]
    flags = ["--ranks", 2, "--data-parallel", 1, "--schedule", "1f1b", "--microbatches", 2,
             "--stages-per-rank", 1, "--fastest", "--contiguous", "-o"]
    run(tmp_path, "plan", "layers.yaml", *flags, "of_layers.yaml")
    run(tmp_path, "plan", "profile.json", *flags, "of_profile.yaml")
    plans = [yaml.safe_load((tmp_path / f"of_{of}.yaml").read_text()) for of in
             ["layers", "profile"]]
    # The table leaves out actions, transfers and the optimizer, and never adds anything.
    assert plans[0]["prediction"]["step_s"] < plans[1]["prediction"]["step_s"]
    kept = [yaml.safe_load(run(tmp_path, "simulate", f"of_{of}.yaml", "--json"))["busy_s"] for of in
            ["layers", "profile"]]
    assert sum(kept[0]) < sum(kept[1])
    assert sum(kept[0]) > 0.5 * sum(kept[1])
    (tmp_path / "x.yaml").write_text("penstock: cluster\nranks: 2\nlink: {}\n")
    assert "--layers" in run(tmp_path, "show", "x.yaml", "--layers", status=2)
