"""Losses that a job names and losses that models compute themselves, each as PyTorch has it on the
whole global batch, however it is divided into microbatches and replicas.

The models are kinds of tests/models/labelled.py, exported in float64. Its tolerance is that of
tests/cli/execute/test_execute_models.py: both sides add up the same terms in another order.
"""

import argparse
import functools
import json
import re
import subprocess
import sys

import pytest

from pipelines import (PENSTOCK, ROOT, Reference, any_device, assert_trains_as, execute, load_file,
                       model_path, needs_backend, save_file, torch, write_plan)

sys.path.insert(0, str(ROOT / "python"))

from penstock.exporter.export import build, run
from penstock.exporter.source import Source

pytestmark = needs_backend
FLOAT64 = 1e-10
STEPS, BATCH = 2, 8
ONE, THREE = [""], ["", "body", "head"]


@functools.cache
def source(kind):
    return Source.load(str(ROOT / "tests" / "models" / "labelled.py"), [f"kind={kind}"])


@pytest.fixture
def model(tmp_path):
    """Exports a kind of model; returns its file."""

    def export(kind):
        options = argparse.Namespace(output=str(tmp_path / f"{kind}.pt2"), static=False,
                                     decompose=False, meta=False, dtype="float64", seed=3)
        run(source(kind), options)
        return tmp_path / f"{kind}.pt2"

    return export


def labelled_data(folder):
    """Two steps of samples: ever more labels are left out, none of the first sample's and all of
    the last two, which are microbatches of their own."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(32, (STEPS * BATCH, 8), generator=generator)
    share = torch.linspace(0, 1, BATCH).repeat(STEPS).unsqueeze(1)
    share[share > 0.8] = 1
    left_out = torch.rand(tokens.shape, generator=generator) < share
    save_file({"tokens": tokens, "labels": torch.where(left_out, -100, tokens)},
              folder / "data.safetensors")
    return folder / "data.safetensors"


class Unsplit(Reference):
    """The module on the whole global batch at once."""

    def __init__(self, plan, module):
        super().__init__(plan, module)
        self.size *= self.microbatches * self.replicas
        self.microbatches = self.replicas = 1
        del self.buffers[1:]


def module(kind):
    options = argparse.Namespace(static=False, meta=False, dtype="float64", seed=3)
    return build(source(kind), options)[0]


@any_device
@pytest.mark.parametrize("kind", ["causal", "classes"])
@pytest.mark.parametrize("begins, microbatches, more", [
    (ONE, 1, {}), (ONE, 8, {}), (THREE, 4, {"schedule": "zb-h1"}), (THREE, 2, {"data_parallel": 4}),
    (ONE, 4, {"data_parallel": 2})])
def test_a_model_that_averages_its_targets_trains_as_unsplit_at_any_number_of_microbatches(
        tmp_path, model, kind, begins, microbatches, more):
    size = BATCH // microbatches // more.get("data_parallel", 1)
    plan = write_plan(tmp_path, model(kind), labelled_data(tmp_path), begins, microbatches, size,
                      loss="output", steps=STEPS, **more)
    assert_trains_as(Unsplit(plan, module(kind)), plan, STEPS, FLOAT64)


def test_a_model_that_averages_its_targets_trains_as_unsplit_in_tensor_groups(tmp_path, model):
    plan = write_plan(tmp_path, model("causal"), labelled_data(tmp_path), THREE, 2, BATCH // 4,
                      loss="output", steps=STEPS, data_parallel=2, tensor_parallel=2)
    assert_trains_as(Unsplit(plan, module("causal")), plan, STEPS, FLOAT64)


def test_a_loss_without_any_target_is_refused_as_in_pytorch_where_it_is_nan(tmp_path, model):
    save_file({"tokens": torch.zeros(8, 8, dtype=torch.int64),
               "labels": torch.full((8, 8), -100)}, tmp_path / "data.safetensors")
    plan = write_plan(tmp_path, model("causal"), tmp_path / "data.safetensors", ONE, 4, 2,
                      loss="output")
    done = execute(plan)
    assert done.returncode == 1
    assert "the loss of step 1 is nan" in done.stderr


def job(folder, model, loss, batch=BATCH, data=None):
    (folder / "job.yaml").write_text(
        f"penstock: job\nmodel: {model}\nloss: {loss}\nglobal_batch: {batch}\n"
        "optimizer: {kind: sgd, learning_rate: 0.1}\n" + (f"data: {data}\n" if data else ""))
    return folder / "job.yaml"


def penstock(folder, *arguments):
    return subprocess.run([str(PENSTOCK), *map(str, arguments)], cwd=folder, capture_output=True,
                          text=True)


@pytest.mark.parametrize("kind, operator", [
    ("masked", "div (aten::div.Tensor) divides by sum"),
    ("scaled", "cross_entropy_loss (aten::cross_entropy_loss) is a mean over the targets that are "
               "not -100")])
def test_a_mean_that_cannot_be_weighted_couples_the_batch_and_is_named(tmp_path, model, kind,
                                                                       operator):
    path = model(kind)
    shown = penstock(tmp_path, "show", path).stdout
    assert "samples influence each other" in shown and operator in shown
    made = penstock(tmp_path, "profile", job(tmp_path, path, "output"), "--quick", "-o",
                    "profile.json")
    assert made.returncode == 0, made.stderr
    refused = penstock(tmp_path, "plan", "profile.json", "-o", "plan.yaml")
    assert refused.returncode == 2 and not (tmp_path / "plan.yaml").exists()
    for words in [operator, "--microbatches N", "--allow-batch-coupling"]:
        assert words in refused.stderr
    planned = penstock(tmp_path, "plan", "profile.json", "--microbatches", 2, "-o", "plan.yaml")
    assert planned.returncode == 0 and operator in planned.stderr


def test_a_mean_that_is_the_loss_is_weighted_and_plans_are_free(tmp_path, model):
    path = model("causal")
    shown = penstock(tmp_path, "show", path).stdout
    assert "samples are independent" in shown
    assert re.search(r"loss +cross_entropy_loss is a mean over the targets that are not -100",
                     shown)
    penstock(tmp_path, "profile", job(tmp_path, path, "output"), "--quick", "-o",
             "profile.json")
    planned = penstock(tmp_path, "plan", "profile.json", "-o", "plan.yaml")
    assert planned.returncode == 0 and "influence" not in planned.stderr


@pytest.mark.parametrize("command", ["profile", "estimate", "execute"])
def test_an_output_that_is_no_scalar_is_refused_as_a_loss(tmp_path, model, command):
    path = model("whole")
    data = labelled_data(tmp_path)
    if command == "execute":
        done = execute(write_plan(tmp_path, path, data, ONE, 1, 8, loss="output"))
    else:
        spec = ROOT / "configs" / "devices" / "h100.yaml"
        device = ["--device", "estimate", "--spec", spec] if command == "estimate" else []
        done = penstock(tmp_path, "profile", job(tmp_path, path, "output"), *device, "-o", "p.json")
    assert done.returncode == 2
    for words in ["loss: output, but the first output", "float64 [batch, 8, 32]", "a scalar"]:
        assert words in done.stderr
    assert not (tmp_path / "p.json").exists()


@any_device
@pytest.mark.parametrize("begins, more", [(ONE, {}), (["", "layer1"], {"data_parallel": 2})],
                         ids=["one", "replicas"])
def test_bce_with_logits_trains_as_in_pytorch(tmp_path, begins, more):
    generator = torch.Generator().manual_seed(7)
    data = {"x": torch.randn(16, 32, generator=generator, dtype=torch.float64),
            "target": torch.rand(16, 10, generator=generator, dtype=torch.float64)}
    save_file(data, tmp_path / "data.safetensors")
    plan = write_plan(tmp_path, model_path("pippy-f64"), tmp_path / "data.safetensors", begins, 2,
                      2, loss="bce_with_logits", steps=STEPS, **more)
    assert_trains_as(Reference(plan), plan, STEPS, FLOAT64)


SMOOTHED = {"kind": "cross_entropy", "label_smoothing": 0.1}


def data_with_targets(folder):
    """labelled_data with the labels as targets."""
    data = load_file(labelled_data(folder))
    save_file(data | {"target": data["labels"].clone()}, folder / "data.safetensors")
    return folder / "data.safetensors"


@any_device
@pytest.mark.parametrize("begins, microbatches, more", [
    (ONE, 1, {}), (THREE, 4, {"schedule": "zb-h1"}), (THREE, 2, {"data_parallel": 2})])
def test_smoothed_labels_train_as_in_pytorch_whatever_targets_are_ignored(
        tmp_path, model, begins, microbatches, more):
    size = BATCH // microbatches // more.get("data_parallel", 1)
    plan = write_plan(tmp_path, model("whole"), data_with_targets(tmp_path), begins, microbatches,
                      size, loss=SMOOTHED, steps=STEPS, **more)
    assert_trains_as(Unsplit(plan, module("whole")), plan, STEPS, FLOAT64)


def groups_plan(folder, model, data, loss):
    """Two replicas of pipelines of two groups of two ranks, the rows of the head split."""
    return write_plan(folder, model, data, ["", "head"], 2, BATCH // 4, loss=loss, steps=STEPS,
                      data_parallel=2, tensor_parallel=2,
                      sharding={"parameters": {"head.weight": {"split": 0}}})


def last_stage(plan):
    return subprocess.run([PENSTOCK, "show", plan, "--stage", "1"], capture_output=True, text=True,
                          check=True).stdout


@pytest.mark.parametrize("loss", ["cross_entropy", SMOOTHED], ids=["plain", "smoothed"])
def test_the_loss_of_logits_that_are_split_by_classes_is_that_of_the_whole(tmp_path, model, loss):
    plan = groups_plan(tmp_path, model("whole"), data_with_targets(tmp_path), loss)
    assert "the model's `output` in S(2)" in last_stage(plan)
    assert "all_gather" not in last_stage(plan)
    assert_trains_as(Unsplit(plan, module("whole")), plan, STEPS, FLOAT64)


@pytest.mark.parametrize("kind", ["causal", "classes"])
def test_a_models_own_loss_of_logits_that_are_split_is_that_of_the_whole(tmp_path, model, kind):
    plan = groups_plan(tmp_path, model(kind), labelled_data(tmp_path), "output")
    assert "cross_entropy_of_classes" in last_stage(plan)
    assert_trains_as(Unsplit(plan, module(kind)), plan, STEPS, FLOAT64)


def test_forwards_give_the_logits_whole_of_which_the_loss_is_computed_in_parts(tmp_path, model):
    plan = groups_plan(tmp_path, model("whole"), data_with_targets(tmp_path), "cross_entropy")
    done = execute(plan, "--forward-only", "--output", tmp_path / "outputs.safetensors",
                   "--steps", 1)
    assert done.returncode == 0, done.stderr
    (given,) = load_file(tmp_path / "outputs.safetensors").values()
    tokens = load_file(tmp_path / "data.safetensors")["tokens"][:BATCH]
    torch.testing.assert_close(given, module("whole")(tokens, None).detach(), rtol=FLOAT64,
                               atol=FLOAT64)


def run_json(plan, *options):
    done = execute(plan, "--json", "--steps", 1, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("loss", ["cross_entropy", SMOOTHED], ids=["plain", "smoothed"])
def test_the_loss_of_each_microbatch_is_pytorchs_own(tmp_path, model, loss):
    """Replica by replica; its targets weigh it in the step's. The last microbatch has none."""
    plan = write_plan(tmp_path, model("whole"), data_with_targets(tmp_path), THREE, 2, 2, loss=loss,
                      data_parallel=2)
    reference, expected, counts = Reference(plan, module("whole")), [], []
    for m in range(4):
        inputs, target = reference.microbatch(0, m)
        counts.append(int((target != -100).sum()))
        expected.append(float(reference.loss(reference.module(**inputs), target))
                        if counts[-1] else 0.0)
    run = run_json(plan)
    assert counts[-1] == 0
    assert run["microbatch_losses"] == [pytest.approx(expected, rel=FLOAT64)]
    mean = sum(a * b for a, b in zip(expected, counts, strict=True)) / sum(counts)
    assert run["losses"] == [pytest.approx(mean, rel=FLOAT64)]


@any_device
def test_the_loss_of_each_microbatch_is_the_models_own_mean(tmp_path, model):
    """The model's own is a sum where it trains; it is nan where there are no targets."""
    plan = write_plan(tmp_path, model("causal"), labelled_data(tmp_path), THREE, 4, 2,
                      loss="output")
    reference = Reference(plan, module("causal"))
    expected = [float(reference.module(**reference.microbatch(0, m)[0])) for m in range(4)]
    (losses,) = run_json(plan)["microbatch_losses"]
    assert losses == [*(pytest.approx(loss, rel=FLOAT64) for loss in expected[:3]), None]
    assert expected[3] != expected[3]  # nan


@any_device
def test_forwards_of_a_model_that_returns_its_loss_give_one_of_each_microbatch(tmp_path, model):
    path, outputs = model("causal"), tmp_path / "outputs.safetensors"
    plan = write_plan(tmp_path, path, labelled_data(tmp_path), THREE, 2, 2, loss="output",
                      data_parallel=2)
    done = execute(plan, "--forward-only", "--output", outputs, "--steps", 1)
    assert done.returncode == 0, done.stderr
    (given,) = load_file(outputs).values()
    data = load_file(tmp_path / "data.safetensors")
    losses = [module("causal")(data["tokens"][first:first + 2], data["labels"][first:first + 2])
              for first in range(0, 8, 2)]  # the last is nan, as it has no targets
    torch.testing.assert_close(given, torch.stack(losses).detach(), rtol=FLOAT64, atol=0,
                               equal_nan=True)
