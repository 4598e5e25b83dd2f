"""The bench of predictions works: its figures by hand, its plans and models are what it says, and a
short run leaves a whole page. What it measures is asserted nowhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
BENCH = ROOT / "bench" / "fidelity"
sys.path[:0] = [str(BENCH), str(BENCH.parent)]

import cases
import figures
import plans
import report
from work import Work

pytestmark = pytest.mark.long
needs_backend = pytest.mark.skipif(not (BUILD / "penstock-worker").exists(),
                                   reason="penstock-worker is not built: no LibTorch")


# Figures.

@pytest.mark.parametrize("seconds, name", [(0.1, "above 100 ms"), (0.0999, "50 to 100 ms"),
                                           (0.05, "50 to 100 ms"), (0.01, "10 to 50 ms"),
                                           (0.0099, "below 10 ms")])
def test_classes_of_steps(seconds, name):
    assert figures.class_of(seconds) == name


def test_the_floor_is_half_the_range_of_identical_runs():
    assert figures.noise_floor([0.9, 1.0, 1.2]) == pytest.approx(0.15)
    assert figures.noise_floor([1.0]) is None


def test_rank_correlation_is_that_of_the_places():
    assert figures.spearman([1, 2, 3, 4], [10, 20, 30, 400]) == pytest.approx(1)
    assert figures.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # d = 1, -1, 0, 0: 1 - 6 * 2 / (4 * 15)
    assert figures.spearman([1, 2, 3, 4], [2, 1, 3, 4]) == pytest.approx(0.8)
    # Places 1.5, 1.5, 3 against 1, 2, 3: 1.5 / sqrt(1.5 * 2)
    assert figures.spearman([5, 5, 7], [1, 2, 3]) == pytest.approx(0.75 ** 0.5)
    assert figures.spearman([1, 2], [1, 2]) is None and figures.spearman([1, 2, 3], [4] * 3) is None


def test_drift_is_what_all_plans_of_a_round_have_in_common():
    assert figures.drift([[1, 1.1, 0.9], [2, 2.2, 1.8], [1, 1]]) == pytest.approx([0, 0.1, -0.1])


def run(step_s, at_pace=1.0, memory=(100, 200), **errors):
    by_cause = {f"{cause}_s": errors.get(cause, 0.0) for cause in figures.CAUSES}
    other = dict.fromkeys(by_cause, 9.0)  # of the rank that is not asked for
    return {"execute": {"measured_step_s": step_s, "spread_s": step_s / 10,
                        "predicted_at_pace_step_s": at_pace, "peak_memory_bytes": list(memory)},
            "compare": {"ranks": [{"error": other}, {"error": by_cause}],
                        "step_s": {"measured": step_s}},
            "with_measured_compute_s": 1.25}


FROZEN = {"step_s": 1.0, "limiting_rank": 1, "peak_memory_bytes": [110, 200], "processes": 2}


def test_a_plan_is_the_median_of_its_runs_and_its_causes_add_up_to_its_error():
    found = figures.plan_figures(FROZEN, [
        run(1.5, 1.2, compute=-0.5), run(1.25, 1.25, compute=-0.125, transfers=-0.0625),
        run(1.0, 1.0, compute=7)])
    assert (found["measured_s"], found["class"]) == (1.25, "above 100 ms")
    assert found["error"] == pytest.approx(-0.2)
    assert found["floor"] == pytest.approx(0.2)
    # In the run of 1.25 s; what is left of -0.25 s is waiting.
    assert found["causes"] == pytest.approx({"compute": -0.1, "transfers": -0.05, "waiting": -0.05,
                                             "reduction": 0, "optimizer": 0})
    assert sum(found["causes"].values()) == pytest.approx(found["error"])
    assert found["at_pace"] == pytest.approx(0)
    assert found["with_measured_compute"] == pytest.approx(0)
    assert found["memory"] == pytest.approx([0.1, 0])


def test_the_causes_of_two_runs_add_up_to_the_error_too():
    found = figures.plan_figures(FROZEN, [run(1.5, compute=-0.5), run(1.0)])
    assert sum(found["causes"].values()) == pytest.approx(found["error"]) == pytest.approx(-0.2)


def test_memory_of_replicas_is_that_of_one():
    runs = [run(1.0, memory=(100, 200, 110, 100))]
    assert figures.memory_errors([110, 200], runs) == pytest.approx([0.1, 0, 0, 1])


def test_the_choice_is_compared_with_plans_on_no_more_processes():
    measured = {name: {"measured_s": step_s}
                for name, step_s in (("chosen", 1.02), ("a", 1.0), ("b", 0.5), ("c", 0.5))}
    frozen = {"chosen": {"processes": 2, "replicas": 1}, "a": {"processes": 1, "replicas": 1},
              "b": {"processes": 4, "replicas": 1}, "c": {"processes": 2, "replicas": 2}}
    found = figures.choice(measured, frozen, "chosen")
    assert (found["best"], found["rivals"]) == ("a", 2)
    assert found["loss"] == pytest.approx(0.02)
    assert figures.choice({"a": {"measured_s": 1.0}}, frozen, "chosen") is None


# Plans.

@pytest.mark.parametrize("times, shares, begins", [
    ([1, 1, 1, 1], (1, 1), [0, 2]), ([1, 1, 1, 3], (1, 1), [0, 3]), ([3, 1, 1, 1], (1, 2), [0, 1]),
    ([1, 1, 1], (1, 1, 1), [0, 1, 2]), ([5, 1, 1, 1, 1, 1], (1, 1), [0, 1])])
def test_a_split_gives_each_stage_its_share(times, shares, begins):
    assert plans.split(times, shares) == begins


def test_more_stages_than_blocks_are_refused():
    with pytest.raises(ValueError, match="2 blocks are too few for 3 stages"):
        plans.split([1, 1], (1, 1, 1))


def test_operators_belong_to_the_block_that_began_last():
    times = {"forward": {"mean_s": 1.0}, "backward": {"mean_s": 2.0}}
    modules = ["enter", "layers.1.norm", "layers.1", "", "layers.10.norm", "layers.1"]
    profile = {"microbatches": [{"microbatch": 2, "operators": [
        {"module": module, "times": times} for module in modules]}]}
    assert plans.block_times(profile, 2, ["layers.1", "layers.10"]) == [12.0, 6.0]


def test_there_are_at_least_48_plans_of_eight_models_with_all_there_is():
    names = [(case.name, name) for case in cases.CASES.values()
             for name in case.plan_names(sys.maxsize)]
    assert len(cases.CASES) == 8 and len(set(names)) == len(names) >= 48
    shapes = [cases.SHAPES[name] for _, name in names if name in cases.SHAPES]
    assert {shape.schedule for shape in shapes} == {
        "gpipe", "1f1b", "looped-bfs", "interleaved-1f1b", "interleaved-zb", "zb-h1", "zb-h2",
        "zbv", "dualpipev", "adaptive"}
    assert {shape.ranks for shape in shapes} >= {2, 3, 4}
    assert {(shape.replicas, shape.ranks) for shape in shapes} >= {(2, 1), (2, 2)}
    assert any(shape.shares for shape in shapes) and any(shape.recompute for shape in shapes)
    assert sum(case.large for case in cases.CASES.values()) == 4


def test_one_device_runs_plans_of_one_process_and_two_of_two():
    for case in cases.CASES.values():
        for devices in (1, 2):
            shapes = [cases.SHAPES[name] for name in case.plan_names(devices)
                      if name in cases.SHAPES]
            assert shapes and all(shape.processes <= devices for shape in shapes)


@pytest.mark.parametrize("case", cases.CASES.values(), ids=lambda case: case.name)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_model_has_the_blocks_that_its_plans_begin_with(case, device):
    settings, file = case.settings(device, quick=False), case.module()
    with torch.device("meta"):
        module = cases.call(file.model, settings)
    blocks = cases.call(file.blocks, settings)
    assert set(blocks) <= {name for name, _ in module.named_modules()}
    assert len(blocks) >= max(shape.ranks * shape.per_rank for shape in cases.SHAPES.values())
    for name in case.plans:
        shape = cases.SHAPES[name]
        assert case.batch % (shape.replicas * shape.microbatches) == 0


@pytest.mark.parametrize("case", cases.CASES.values(), ids=lambda case: case.name)
def test_each_model_takes_any_number_of_samples(case):
    file = case.module()
    module = file.model()
    for samples in (2, 3):
        assert len(module(**file.example_inputs(batch=samples))) == samples


# The bench itself.

def bench(folder, *flags):
    """On one thread: how long it takes does not depend on who else computes here."""
    return subprocess.run([sys.executable, BENCH, "--quick", "--folder", folder, *flags],
                          capture_output=True, text=True, timeout=590,
                          env=os.environ | {"OMP_NUM_THREADS": "1"})


def rows(page, section):
    part = page.split(f"## {section}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in part.splitlines() if line.startswith("|")][2:]


@needs_backend
def test_a_short_run_writes_a_whole_page_and_goes_on_where_it_was_interrupted(tmp_path):
    some = ("--plans", "chosen", "1f1b", "zbv")
    first = bench(tmp_path, "export", "profile", "freeze", "run", "--repeat", "1", "--models",
                  "mixer", *some)
    assert first.returncode == 0, first.stderr
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    done = bench(tmp_path, "--models", "mixer", "denoiser", *some)
    assert done.returncode == 0, done.stderr
    assert all(path.read_bytes() == content for path, content in kept.items())
    page = (tmp_path / "fidelity.md").read_text()
    assert done.stdout.strip() == str(tmp_path / "fidelity.md")
    assert "only to show that the bench works" in page and "What failed" not in page
    measured = rows(page, "Plans")
    assert [row[0] for row in measured] == ["mixer/chosen", "mixer/1f1b", "denoiser/chosen",
                                            "denoiser/zbv"]
    for row in measured:
        error, causes = float(row[4].split()[0]), [float(cell.split()[0]) for cell in row[9:14]]
        assert sum(causes) == pytest.approx(error, abs=0.3)  # six figures rounded to 0.1
    assert [row[:2] for row in rows(page, "Models")] == [["mixer", "2"], ["denoiser", "2"]]
    assert [row[0] for row in rows(page, "The plan chosen")] == ["mixer/chosen", "denoiser/chosen"]
    for case, name, rounds in (("mixer", "1f1b", 2), ("denoiser", "zbv", 2)):
        assert len(list((tmp_path / case / name).glob("run-?.json"))) == rounds


@needs_backend
def test_what_fails_is_told_and_the_rest_is_measured(tmp_path):
    """A plan that changed after it was frozen, and one that cannot be read at all."""
    flags = ("--models", "mixer", "--plans", "1f1b", "replicas", "--repeat", "1")
    first = bench(tmp_path, *flags, "export", "profile", "freeze")
    assert first.returncode == 0, first.stderr
    with (tmp_path / "mixer" / "1f1b" / "plan.yaml").open("a") as plan:
        plan.write("# changed\n")
    done = bench(tmp_path, *flags)
    assert done.returncode == 1
    assert "mixer/1f1b run-1: the plan is not the one that was frozen" in done.stderr
    page = (tmp_path / "fidelity.md").read_text()
    assert [row[0] for row in rows(page, "Plans")] == ["mixer/replicas"]
    assert "* mixer/1f1b run-1: the plan is not" in page.split("## What failed")[1]
    again = bench(tmp_path, *flags, "--redo", "freeze", "run", "report")
    assert again.returncode == 0, again.stderr
    assert len(rows((tmp_path / "fidelity.md").read_text(), "Plans")) == 2


@needs_backend
def test_ranks_that_share_a_device_have_the_losses_of_one(tmp_path, monkeypatch):
    monkeypatch.setattr(Work, "devices", 1)
    work = Work(tmp_path, "cpu", True, ["mixer"])
    for stage in ("export", "profile", "agree"):
        getattr(work, stage)()
    apart = json.loads((tmp_path / "mixer" / "agreed.json").read_text())["apart"]
    assert 0 <= apart < 1e-5  # float32: what four stages round otherwise, five times trained
    shared = rows(report.page(work)[0], "Ranks that share the device")
    assert shared == [["mixer", "5", f"{apart:.1e}"]]


def test_a_page_of_nothing_but_failures_is_written(tmp_path):
    work = Work(tmp_path, "cpu", True, ["mixer"])
    (tmp_path / "mixer").mkdir()
    (tmp_path / "mixer" / "profiled.json").write_text(json.dumps({"failed": "a\nb\nc\nd"}))
    page, found = report.page(work)
    assert found.failures == ["mixer: b c d"] and "* mixer: b c d" in page


def test_a_folder_of_other_settings_is_refused(tmp_path):
    Work(tmp_path, "cpu", True, ["mixer"])
    with pytest.raises(SystemExit, match="name another --folder"):
        Work(tmp_path, "cpu", False, ["mixer"])


def test_a_stage_that_is_not_there_is_refused(tmp_path):
    done = bench(tmp_path, "measure")
    assert done.returncode == 2
    stages = "export, profile, freeze, run, agree, report"
    assert f"there is no stage measure, only {stages}" in done.stderr
