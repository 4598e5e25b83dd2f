"""A validation set in the job: its loss is that of a loop over model.eval() in PyTorch, and
training goes on as if nothing had been evaluated.

Tolerance: 1e-10 relative in float64, as for all that is compared with PyTorch. Whatever changes
nothing is equal to the last bit.
"""

import argparse
import json
import subprocess
import sys

import pytest
import yaml

from exporting import export as export_plan
from pipelines import (PENSTOCK, ROOT, any_device, execute, execute_json, load_file, model_path,
                       needs_backend, save_file, torch, write_plan)
from trainings import FLOAT64

sys.path.insert(0, str(ROOT / "python"))

from penstock.exporter.export import build, run
from penstock.exporter.source import Source

pytestmark = needs_backend
SMALL = ["dim=32", "heads=4", "vocabulary=64", "sequence=16", "feedforward=64", "layers=4"]
TEXT = ["layers=2", "hidden=16", "heads=2", "vocabulary=32", "sequence=8"]
MODELS = {
    "transformer": (SMALL + ["dropout=0.3", "batch_first=true"], "layers.2"),
    "resnet": (["blocks=1", "width=4", "side=8", "classes=5"], "groups.1"),
    "gpt2": (TEXT + ["dropout=0.3"], "transformer.h.1"),
    "t5": (TEXT + ["feedforward=32", "dropout=0.3"], "decoder"),
}


WITHOUT_WEIGHTS = ["transformer-meta", "resnet-meta", "t5-meta"]


def options_of(path, dtype="float64", meta=False):
    return argparse.Namespace(output=str(path), static=False, decompose=False, meta=meta,
                              dtype=dtype, seed=3)


class Exported:
    """A model in float64 with training and validation data, its module beside it."""

    def __init__(self, folder, file, settings, ignored=0, meta=False):
        self.folder = folder
        self.source = Source.load(str(file), settings)
        self.options = options_of(folder / "model.pt2")
        run(self.source, options_of(self.options.output, meta=meta))
        self.model = folder / "model.pt2"
        self.module, _, self.example = build(self.source, self.options)
        self.ignored = ignored
        self.train = self.data("train", 6)
        self.validation = self.data("validation", 6, samples=22)

    def data(self, name, parts, samples=24):
        batches = []
        for self.options.seed in range(10, 10 + parts):
            batches.append(build(self.source, self.options)[2])
        inputs = {key: torch.cat([batch[key] for batch in batches])[:samples] for key in batches[0]}
        with torch.no_grad():
            *sizes, classes = build(self.source, self.options)[0].eval()(**inputs).shape
        target = torch.randint(classes, sizes)
        target[torch.rand(target.shape) < self.ignored] = -100
        save_file({**inputs, "target": target}, self.folder / f"{name}.safetensors")
        return self.folder / f"{name}.safetensors"

    def plan(self, begins, microbatches=4, microbatch=2, every=2, name="plan.yaml", validated=True,
             **more):
        plan = write_plan(self.folder, self.model, self.train, begins, microbatches, microbatch,
                          name=name, **{"steps": 4, **more})
        if validated:
            content = yaml.safe_load(plan.read_text())
            content["job"]["validation"] = {"data": str(self.validation), "every": every}
            plan.write_text(yaml.safe_dump(content, sort_keys=False))
        return plan

    def loss(self, plan, checkpoint):
        """Of the module with a checkpoint's weights, over the validation set in batches of 5."""
        weights = self.folder / "weights.safetensors"
        done = export_plan(plan, "state-dict", weights, "--checkpoint", checkpoint)
        assert done.returncode == 0, done.stderr
        self.module.load_state_dict(load_file(weights))
        data = load_file(self.validation)
        target = data.pop("target")
        total = counted = 0
        self.module.eval()
        with torch.no_grad():
            for first in range(0, len(target), 5):
                part = slice(first, first + 5)
                output = self.module(**{name: value[part] for name, value in data.items()})
                total += torch.nn.functional.cross_entropy(
                    output.flatten(0, -2), target[part].flatten(), reduction="sum").item()
                counted += (target[part] != -100).sum().item()
        return total / counted


def bytes_of(checkpoint):
    return {path.name: path.read_bytes() for path in checkpoint.glob("stage-*.safetensors")}


@pytest.fixture(scope="module", params=[*MODELS, *WITHOUT_WEIGHTS])
def exported(request, tmp_path_factory):
    name = request.param.removesuffix("-meta")
    settings, begin = MODELS[name]
    made = Exported(tmp_path_factory.mktemp(request.param),
                    ROOT / "configs" / "models" / f"{name}.py", settings, ignored=0.2,
                    meta=request.param in WITHOUT_WEIGHTS)
    made.begin = begin
    return made


def test_losses_are_those_of_a_loop_over_eval_and_training_keeps_its_bits(exported):
    """22 samples in microbatches of 4: a smaller one is left."""
    begins = ["", exported.begin]
    plan = exported.plan(begins, 2, 4)
    saved = exported.folder / "saved"
    found = execute_json(plan, "--save", saved, "--save-every", 2)
    assert [one["step"] for one in found["validation"]] == [2, 4]
    for one in found["validation"]:
        expected = exported.loss(plan, saved / f"step-{one['step']}")
        assert one["loss"] == pytest.approx(expected, rel=FLOAT64)
    without = exported.plan(begins, 2, 4, name="without.yaml", validated=False)
    assert execute_json(without, "--save", exported.folder / "plain")["losses"] == found["losses"]
    assert bytes_of(exported.folder / "plain" / "step-4") == bytes_of(saved / "step-4")


LOOP, V = [0, 1, 0, 1], [0, 1, 1, 0]


@pytest.mark.parametrize("schedule, ranks, more", [
    ("gpipe", [0, 1, 2, 3], {}), ("1f1b", [0, 1, 2, 3], {}), ("zb-h1", [0, 1, 2, 3], {}),
    ("zb-h2", [0, 1, 2, 3], {}), ("looped-bfs", LOOP, {}), ("interleaved-1f1b", LOOP, {}),
    ("interleaved-zb", LOOP, {}), pytest.param("zbv", V, {}, marks=any_device),
    ("dualpipev", V, {}),
    ("1f1b", [0, 1, 2, 3], {"data_parallel": 2})])
def test_every_schedule_and_replicas_evaluate_alike(transformer, schedule, ranks, more):
    plan = transformer.plan(["", "layers.1", "layers.2", "layers.3"], 4, 2, schedule=schedule,
                            ranks=ranks, name=f"{schedule}.yaml", steps=1, **more)
    saved = transformer.folder / schedule
    found = execute_json(plan, "--save", saved)["validation"]
    assert [one["step"] for one in found] == [1]
    assert found[0]["loss"] == pytest.approx(transformer.loss(plan, saved), rel=FLOAT64)


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    file = ROOT / "configs" / "models" / "transformer.py"
    return Exported(tmp_path_factory.mktemp("schedules"), file, MODELS["transformer"][0])


def test_a_resumed_run_evaluates_after_the_same_steps(transformer):
    plan = transformer.plan(["", "layers.2"], every=3, steps=7, name="resumed.yaml")
    saved = transformer.folder / "resumed"
    first = execute_json(plan, "--steps", 2, "--save", saved)
    rest = execute_json(plan, "--resume", saved, "--save", saved)
    assert [one["step"] for one in first["validation"] + rest["validation"]] == [2, 3, 6, 7]
    whole = execute_json(plan)
    assert whole["validation"] == rest["validation"]


def test_validation_losses_have_lines_of_their_own(transformer):
    plan = transformer.plan(["", "layers.2"], name="lines.yaml")
    done = execute(plan)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("validation loss") == 2
    assert done.stdout.startswith("validation: loss ")


def test_metrics_have_a_line_for_each_evaluation(transformer, tmp_path):
    plan = transformer.plan(["", "layers.2"], name="metrics.yaml")
    run = execute_json(plan, "--metrics", tmp_path / "run.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    found = [{"step": line["step"], "loss": line["validation_loss"]} for line in lines
             if "validation_loss" in line]
    assert found == run["validation"]


def test_recomputing_stages_evaluate_too(transformer):
    plan = transformer.plan(["", "layers.2"], name="recompute.yaml", steps=1)
    content = yaml.safe_load(plan.read_text())
    content["stages"][0]["recompute"], content["stages"][1]["recompute"] = True, 1
    plan.write_text(yaml.safe_dump(content, sort_keys=False))
    saved = transformer.folder / "recompute"
    found = execute_json(plan, "--save", saved)["validation"][0]["loss"]
    assert found == pytest.approx(transformer.loss(plan, saved), rel=FLOAT64)


LABELLED = ROOT / "tests" / "models" / "labelled.py"


@pytest.mark.parametrize("kind", ["causal", "classes"])
def test_a_loss_of_the_model_itself_counts_the_targets_of_the_whole_set(tmp_path, kind):
    source = Source.load(str(LABELLED), [f"kind={kind}"])
    run(source, options_of(tmp_path / "model.pt2"))
    module = build(source, options_of(""))[0]
    torch.manual_seed(2)
    for name in ("train", "validation"):
        tokens = torch.randint(32, (10, 8))
        labels = tokens.masked_fill(torch.rand(10, 8) < torch.linspace(0, 0.8, 10)[:, None], -100)
        save_file({"tokens": tokens, "labels": labels}, tmp_path / f"{name}.safetensors")
    plan = write_plan(tmp_path, tmp_path / "model.pt2", tmp_path / "train.safetensors",
                      ["", "head"], 2, 4, loss="output", steps=1)
    content = yaml.safe_load(plan.read_text())
    content["job"]["validation"] = {"data": str(tmp_path / "validation.safetensors")}
    plan.write_text(yaml.safe_dump(content, sort_keys=False))
    found = execute_json(plan, "--save", tmp_path / "saved")["validation"]
    export_plan(plan, "state-dict", tmp_path / "w.safetensors", "--checkpoint", tmp_path / "saved")
    module.load_state_dict(load_file(tmp_path / "w.safetensors"))
    with torch.no_grad():
        expected = module.eval()(**load_file(tmp_path / "validation.safetensors")).item()
    assert found == [{"step": 1, "loss": pytest.approx(expected, rel=FLOAT64)}]


class TestRefusals:
    def refused(self, plan, *options):
        done = execute(plan, *options)
        assert done.returncode == 2, done.stderr
        return done.stderr

    def test_a_model_that_does_something_else_in_evaluation_mode(self, tmp_path):
        file = tmp_path / "scaled.py"
        file.write_text("import torch\n"
                        "class Scaled(torch.nn.Linear):\n"
                        "    def forward(self, x):\n"
                        "        return super().forward(x) * (2 if self.training else 3)\n"
                        "def model(): return Scaled(4, 5)\n"
                        "def example_inputs(): return {'x': torch.randn(4, 4)}\n")
        run(Source.load(str(file), []), options_of(tmp_path / "model.pt2"))
        data = tmp_path / "data.safetensors"
        save_file({"x": torch.randn(8, 4, dtype=torch.float64),
                   "target": torch.randint(5, (8,))}, data)
        plan = write_plan(tmp_path, tmp_path / "model.pt2", data, [""], 1, 4)
        plan.write_text(plan.read_text().replace("job:\n",
                                                 f"job:\n  validation: {{data: {data}}}\n"))
        said = self.refused(plan)
        assert "model.pt2: cannot be run in evaluation mode: output 0 differs from" in said
        assert "self.training" in said
        assert "evaluation mode" in self.refused(plan, "--forward-only", "--output",
                                                 tmp_path / "out.safetensors")

    def test_a_file_without_a_word_of_evaluation_mode(self, tmp_path):
        module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Dropout(0.5))
        program = torch.export.export(module, (torch.randn(4, 4),),
                                      dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, tmp_path / "model.pt2")
        data = tmp_path / "data.safetensors"
        save_file({"input": torch.randn(8, 4), "target": torch.randint(5, (8,))}, data)
        plan = write_plan(tmp_path, tmp_path / "model.pt2", data, [""], 1, 4)
        plan.write_text(plan.read_text().replace("job:\n",
                                                 f"job:\n  validation: {{data: {data}}}\n"))
        said = self.refused(plan)
        assert "draws random numbers" in said and "tools/export_model.py" in said

    def test_samples_left_over_of_a_batch_that_cannot_vary(self, tmp_path):
        tokens = {name: torch.randint(64, (6, 16)) for name in ("tokens", "target")}
        save_file(tokens, tmp_path / "data.safetensors")
        model = model_path("transformer-static")
        plan = write_plan(tmp_path, model, tmp_path / "data.safetensors", [""], 1, 4)
        content = yaml.safe_load(plan.read_text())
        content["job"]["validation"] = {"data": str(tmp_path / "data.safetensors")}
        plan.write_text(yaml.safe_dump(content, sort_keys=False))
        assert "6 samples are 2 more than whole microbatches of 4" in self.refused(plan)

    def test_files_of_another_kind_than_the_data(self, transformer, tmp_path):
        plan = transformer.plan(["", "layers.2"], name="kinds.yaml")
        content = yaml.safe_load(plan.read_text())
        (tmp_path / "text.txt").write_text("text")
        content["job"]["validation"]["data"] = str(tmp_path / "text.txt")
        plan.write_text(yaml.safe_dump(content, sort_keys=False))
        said = self.refused(plan)
        assert "kinds.yaml" in said and "is of another kind than" in said


def test_a_job_shows_its_validation_set(transformer):
    plan = transformer.plan(["", "layers.2"], name="shown.yaml")
    job = transformer.folder / "job.yaml"
    job.write_text(yaml.safe_dump({"penstock": "job", **yaml.safe_load(plan.read_text())["job"]},
                                  sort_keys=False))
    done = subprocess.run([PENSTOCK, "show", job], capture_output=True, text=True, check=True)
    assert "validation.safetensors, every 2 steps" in " ".join(done.stdout.split())
