"""penstock export: torch's own runtime takes the files, and trains the same step with them."""

import json
import subprocess

import pytest

from exporting import export, run_cases
from pipelines import (PENSTOCK, difference, execute_json, load_file, model_path, needs_backend,
                       torch, vectors, write_plan)

LOOP, V = [0, 1, 0, 1], [0, 1, 1, 0]
FOUR, TWO = ["", "layer1", "layer2", "output_proj"], ["", "layer2"]
MICROBATCHES = 4


def plan_of(folder, schedule, ranks, samples=8):
    data = vectors(folder, "x", 32, torch.float64, samples=samples)
    begins = FOUR if len(ranks) == 4 else TWO
    return data, begins, write_plan(folder, model_path("pippy-f64"), data, begins, MICROBATCHES,
                                    samples // MICROBATCHES, schedule, ranks=ranks)


CASES = [(schedule, ranks, form)
         for schedule, ranks in [("gpipe", [0, 1]), ("1f1b", [0, 1]), ("looped-bfs", LOOP),
                                 ("interleaved-1f1b", LOOP), ("interleaved-zb", LOOP),
                                 ("zb-h1", [0, 1]),
                                 ("zb-h2", [0, 1]), ("zbv", V), ("dualpipev", V)]
         for form in ("compute_only", "compute_comms")]


@pytest.fixture(scope="module")
def torch_folder(tmp_path_factory):
    """A folder for each case with our plan and schedule, and the loss and gradients that torch got
    from it."""
    root, cases = tmp_path_factory.mktemp("torch"), []
    for schedule, ranks, form in CASES:
        folder = root / f"{schedule}-{form}"
        folder.mkdir()
        data, begins, plan = plan_of(folder, schedule, ranks)
        lowered = ["--lowered", "2.11"] if form == "compute_comms" else []
        done = export(plan, "torch-csv", folder / "schedule.csv", *lowered)
        assert done.returncode == 0, done.stderr
        assert "2 ranks" in done.stdout
        cases.append({"schedule": str(folder / "schedule.csv"), "format": form,
                      "model": str(model_path("pippy-f64")), "data": str(data),
                      "microbatches": MICROBATCHES, "begins": begins[1:], "folder": str(folder)})
    return run_cases(root, "torch_runtime.py", cases)


@needs_backend
@pytest.mark.parametrize("schedule, form", [(schedule, form) for schedule, _, form in CASES])
def test_torch_trains_the_same_step_with_the_exported_schedule(torch_folder, schedule, form):
    folder = torch_folder / f"{schedule}-{form}"
    ours = execute_json(folder / "plan.yaml", "--steps", 1,
                        "--dump-gradients", folder / "ours.safetensors")
    # float64: sums in another order
    assert ours["losses"][0] == pytest.approx(json.loads((folder / "loss.json").read_text()),
                                              rel=1e-12)
    theirs = (load_file(folder / "gradients-0.safetensors")
              | load_file(folder / "gradients-1.safetensors"))
    assert difference(load_file(folder / "ours.safetensors"), theirs) <= 1e-10


@needs_backend
@pytest.mark.parametrize("options", [[], ["--lowered", "2.11"]], ids=["compute-only", "lowered"])
def test_an_exported_file_is_a_program_for_us_as_well(tmp_path, options):
    _, begins, plan = plan_of(tmp_path, "interleaved-zb", LOOP)
    file = tmp_path / "schedule.csv"
    assert export(plan, "torch-csv", file, *options).returncode == 0
    from_file = tmp_path / "from_file.yaml"
    from_file.write_text(plan.read_text().replace("schedule: interleaved-zb", f"program: {file}"))
    assert (execute_json(from_file, "--steps", 2)["losses"]
            == execute_json(plan, "--steps", 2)["losses"])
    times = ["--forward", "1ms", "--backward-input", "1ms", "--backward-weight", "1ms", "--json"]
    done = subprocess.run([PENSTOCK, "simulate", "--program", file, *times], capture_output=True,
                          text=True, check=True)
    study = ["--schedule", "interleaved-zb", "--ranks", "2", "--stages-per-rank", "2",
             "--microbatches", "4"]
    named = subprocess.run([PENSTOCK, "simulate", *study, *times], capture_output=True, text=True,
                           check=True)
    assert json.loads(done.stdout)["makespan_s"] == json.loads(named.stdout)["makespan_s"]


def test_what_cannot_be_exported_is_refused_and_nothing_written(tmp_path):
    _, _, plan = plan_of(tmp_path, "1f1b", [0, 1])
    out = tmp_path / "out.csv"
    for options, form, words in [
            (["--lowered", "2.15"], "torch-csv", ["--lowered", "2.15", "Give 2.11"]),
            (["--lowered", "2.11"], "megatron", ["megatron has no lowered form"]),
                                 ([], "torch-cvs", ["torch-cvs", "Did you mean torch-csv?"])]:
        done = export(plan, form, out, *options)
        assert done.returncode == 2 and not out.exists()
        assert all(word in done.stderr for word in words), done.stderr
    data = tmp_path / "unet.safetensors"
    skips = write_plan(tmp_path, model_path("unet-f64"), data,
                       ["", "down.1", "middle", "up.0", "up.1"], 2, 2, name="skips.yaml",
                       loss="mse")
    done = export(skips, "torch-csv", out, "--lowered", "2.11")
    assert done.returncode == 2 and not out.exists()
    assert "stage 4 uses values of stage 0" in done.stderr


# format, model, schedule, begins, and what the message says
REFUSALS = {
    "a call of several": ("torch-split", "iterative-f64", "1f1b", ["", "iter_block@1"],
                          ["stages[1].begin", "`iter_block@1`", "called several times",
                           "`output_proj`"]),
    "a weight of two stages": ("torch-split", "everything-f64", "1f1b", ["", "head"],
                               ["`emb.weight`", "stages 0"]),
    "a cut inside a layer": ("torchtitan", "transformer-f64", "1f1b", ["", "layers.1.linear1"],
                             ["stages[1].begin", "inside `layers.1`",
                              "Begin stage 1 at `layers.1` or `layers.2`."]),
    "a skip connection": ("torchtitan", "unet-f64", "gpipe", ["", "middle", "up.0"],
                          ["stage 0", "with TorchTitan"]),
    "a schedule that it does not run": ("megatron", "transformer-f64", "zb-h1", ["", "layers.2"],
                                        ["schedule `zb-h1`", "1f1b and interleaved-1f1b"]),
    "no stack of layers": ("megatron", "pippy-f64", "1f1b", ["", "layer1"],
                           ["one stack of layers", "`layer0`", "torch-split"]),
    "a cut after the norm": ("megatron", "transformer-f64", "1f1b", ["", "output"],
                             ["begins at `output`", "Begin stage 1 at `norm`."]),
    "no 1F1B": ("deepspeed", "pippy-f64", "gpipe", ["", "layer1"],
                ["DeepSpeed does not run schedule `gpipe`", "It runs 1f1b"]),
    "several values": ("deepspeed", "unet-f64", "1f1b", ["", "middle"],
                       ["`middle`", "values go there", "hands on one"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_a_format_cannot_say_is_refused_and_nothing_written(tmp_path, case):
    form, model, schedule, begins, words = REFUSALS[case]
    plan = write_plan(tmp_path, model_path(model), tmp_path / "no.safetensors", begins, 4, 2,
                      schedule)
    before = sorted(tmp_path.iterdir())
    done = export(plan, form, tmp_path / "out.toml")
    assert done.returncode == 2 and sorted(tmp_path.iterdir()) == before
    assert all(word in done.stderr for word in words), done.stderr
    assert not done.stdout


@pytest.mark.parametrize("form", ["torchtitan", "megatron", "deepspeed"])
def test_recomputation_of_some_stages_is_refused(tmp_path, form):
    plan = write_plan(tmp_path, model_path("gpt"), tmp_path / "no.safetensors",
                      ["", "blocks.1"], 4, 2)
    plan.write_text(plan.read_text().replace("rank: 1", "recompute: true\n  rank: 1"))
    done = export(plan, form, tmp_path / "out")
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    assert "stages[1].recompute" in done.stderr and "all stages or none" in done.stderr


def test_a_schedule_file_is_not_written_over_the_config(tmp_path):
    plan = write_plan(tmp_path, model_path("pippy-f64"), tmp_path / "no.safetensors",
                      ["", "layer1"], 4, 2, "zb-h1")
    done = export(plan, "torchtitan", tmp_path / "out.csv")
    assert done.returncode == 2 and not (tmp_path / "out.csv").exists()
    assert "in a file of its own" in done.stderr
    assert export(plan, "torchtitan", tmp_path / "out.toml").returncode == 0
    assert str(tmp_path / "out.csv") in (tmp_path / "out.toml").read_text()


@pytest.mark.parametrize("form",
                         ["torch-csv", "torch-split", "torchtitan", "megatron", "deepspeed"])
def test_an_export_is_the_same_every_time_and_help_names_its_format(tmp_path, form):
    plan = write_plan(tmp_path, model_path("gpt"), tmp_path / "no.safetensors",
                      ["", "blocks.1"], 4, 2)
    for name in ("first", "second"):
        done = export(plan, form, tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("exported   2 ranks, 2 stages, 4 microbatches")
        assert f"written    {tmp_path / name}\n" in done.stdout
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    usage = subprocess.run([PENSTOCK, "export", "--help"], capture_output=True, text=True,
                           check=True)
    assert f"  {form} " in usage.stdout
