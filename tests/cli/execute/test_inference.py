"""`execute --forward-only` is inference: in evaluation mode, with the model's own weights, those of
a checkpoint, or those of a state dictionary. The reference is `model.eval()` in PyTorch. A model
that was exported without weights has those that its modules' initialisation gives."""

import argparse
import sys

import pytest
import yaml

from exporting import export as export_plan
from pipelines import (ROOT, difference, execute, execute_json, load_file, needs_backend, save_file,
                       torch, write_plan)

sys.path.insert(0, str(ROOT / "python"))

from penstock.exporter.export import build, run
from penstock.exporter.source import Source

pytestmark = needs_backend
FLOAT64 = 1e-10
RESNET = ["blocks=1", "width=4", "side=8", "classes=5"]
GPT2 = ["layers=2", "hidden=16", "heads=2", "vocabulary=32", "sequence=8", "dropout=0.3"]


class Trained:
    def __init__(self, folder, name, settings, begins, meta=False):
        source = Source.load(str(ROOT / "configs" / "models" / f"{name}.py"), settings)
        options = argparse.Namespace(output=str(folder / "model.pt2"), static=False, meta=meta,
                                     decompose=False, dtype="float64", seed=3)
        run(source, options)
        options.meta = False
        self.module, _, example = build(source, options)
        self.data = {key: torch.cat([value, value.flip(0)]) for key, value in example.items()}
        with torch.no_grad():
            *sizes, classes = self.module.eval()(**self.data).shape
        save_file(self.data | {"target": torch.randint(classes, sizes)},
                  folder / "data.safetensors")
        self.folder = folder
        self.plan = write_plan(folder, folder / "model.pt2", folder / "data.safetensors", begins, 2,
                               4)
        self.saved = folder / "saved"
        execute_json(self.plan, "--save", self.saved)
        self.initial = self.state_dict("initial.safetensors")
        self.weights = self.state_dict("weights.safetensors", "--checkpoint", self.saved)

    def state_dict(self, name, *options):
        done = export_plan(self.plan, "state-dict", self.folder / name, *options)
        assert done.returncode == 0, done.stderr
        return self.folder / name

    def outputs(self, *options, plan=None):
        path = self.folder / "outputs.safetensors"
        done = execute(plan or self.plan, "--forward-only", "--output", path, *options)
        assert done.returncode == 0, done.stderr
        return load_file(path)

    def expected(self, weights):
        self.module.load_state_dict(load_file(weights))
        with torch.no_grad():
            return self.module.eval()(**self.data)


MODELS = [("resnet", RESNET, ["", "groups.1"]), ("gpt2", GPT2, ["", "transformer.h.1"])]
META = [(*model, True) for model in MODELS]


@pytest.fixture(scope="module", params=MODELS + META,
                ids=["resnet", "gpt2", "resnet-meta", "gpt2-meta"])
def trained(request, tmp_path_factory):
    return Trained(tmp_path_factory.mktemp(request.param[0]), *request.param)


def test_outputs_are_those_of_eval_with_trained_weights(trained):
    own = trained.outputs()
    (name, tensor), = own.items()
    assert difference(own, {name: trained.expected(trained.initial)}) <= FLOAT64
    resumed, given = trained.outputs("--resume", trained.saved), trained.outputs(
        "--weights", trained.weights)
    assert torch.equal(resumed[name], given[name])
    assert difference(given, {name: trained.expected(trained.weights)}) <= FLOAT64
    assert not torch.equal(given[name], tensor)


@pytest.mark.parametrize("trained", MODELS[:1], ids=["resnet"], indirect=True)
def test_weights_may_start_a_training_run(trained):
    """As one that is resumed: plain SGD has no state, the data is one batch, and nothing is
    drawn."""
    resumed = execute_json(trained.plan, "--resume", trained.saved, "--steps", 4)["losses"]
    assert execute_json(trained.plan, "--weights", trained.weights,
                        "--steps", 1)["losses"] == resumed


@pytest.mark.parametrize("change, said", [
    (lambda w: w.pop(next(iter(w))), ["lacks "]),
    (lambda w: w.update(more=torch.zeros(2)), ["has, as the model does not, more"]),
    (lambda w: w.update({k: v[:1] for k, v in list(w.items())[:1]}),
     ["has in another form", "the model's is float64"]),
])
def test_weights_of_another_model_are_refused(trained, tmp_path, change, said):
    weights = {name: tensor for name, tensor in load_file(trained.weights).items()
               if name != "lm_head.weight"}  # a tied one needs one of its names
    change(weights)
    save_file(weights, tmp_path / "other.safetensors")
    done = execute(trained.plan, "--forward-only", "--output", tmp_path / "out.safetensors",
                   "--weights", tmp_path / "other.safetensors")
    assert done.returncode == 2
    for words in ["other.safetensors", *said]:
        assert words in done.stderr
    assert not (tmp_path / "out.safetensors").exists()


def test_one_source_of_weights_is_enough(trained):
    done = execute(trained.plan, "--weights", trained.weights, "--resume", trained.saved)
    assert done.returncode == 2 and "--weights, --resume" in done.stderr


@pytest.mark.parametrize("trained", MODELS[1:], ids=["gpt2"], indirect=True)
def test_a_plan_for_inference_runs_without_being_told(trained, tmp_path):
    plan = yaml.safe_load(trained.plan.read_text()) | {"forward_only": True}
    path = trained.folder / "inference.yaml"
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    output = tmp_path / "outputs.safetensors"
    run = execute_json(path, "--weights", trained.weights, "--output", output, "--steps", 3)
    assert run["losses"] == []
    assert run["samples_per_s"] == pytest.approx(8 / run["measured_step_s"])
    (name, tensor), = load_file(output).items()
    once = trained.outputs("--weights", trained.weights)[name]
    assert torch.equal(tensor, torch.cat([once] * 3))  # the data is one batch
    assert execute_json(path)["losses"] == []  # outputs may be left
    for flags in (["--save", tmp_path / "c"], ["--dump-gradients", tmp_path / "g.safetensors"]):
        done = execute(path, *flags)
        assert done.returncode == 2 and f"{flags[0]}: " in done.stderr


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        y = self.first(x)
        return self.second(y), y.sum()


def test_outputs_of_several_steps_are_written_side_by_side(tmp_path):
    """One of two outputs is a number for each microbatch; both are in the order of the samples."""
    module = Two().double()
    data = torch.randn(24, 4, dtype=torch.float64)
    torch.export.save(
        torch.export.export(module, (data[:2],),
                            dynamic_shapes=({0: torch.export.Dim("batch", max=1000)},)),
        tmp_path / "model.pt2")
    save_file({"x": data}, tmp_path / "data.safetensors")
    plan = write_plan(tmp_path, tmp_path / "model.pt2", tmp_path / "data.safetensors",
                      ["", "second"], 2, 2, data_parallel=2)
    done = execute(plan, "--forward-only", "--output", tmp_path / "out.safetensors", "--steps", 3)
    assert done.returncode == 0, done.stderr
    found = load_file(tmp_path / "out.safetensors")
    with torch.no_grad():
        parts = [module(part) for part in data.split(2)]
    expected = [torch.cat([part[0] for part in parts]), torch.stack([part[1] for part in parts])]
    for tensor, wanted in zip(found.values(), expected, strict=True):
        assert tensor.shape == wanted.shape and (tensor - wanted).abs().max() <= FLOAT64
