"""penstock export --format state-dict: trained weights load into the module that they came from."""

import subprocess
import sys

import pytest

from exporting import export, tokens
from pipelines import (ROOT, Reference, difference, execute_json, load_file, model_path,
                       needs_backend, torch, write_plan)
from trainings import FLOAT32, module_of, saved_tensors

STEPS = 3


def plan_of(folder, name, begins):
    return write_plan(folder, model_path(name),
                      model_path(name).with_name(f"{name}.data.safetensors"), begins,
                      microbatches=4, microbatch=2,
                      optimizer={"kind": "adamw", "learning_rate": 1e-2})


@needs_backend
@pytest.mark.parametrize("name, begins", [
    ("gpt2", ["", "transformer.h.1"]),  # its embedding is tied
    ("resnet", ["", "groups.1"])])  # its batch norms have statistics
def test_a_trained_model_gives_the_same_outputs_in_python(tmp_path, name, begins):
    plan, weights = plan_of(tmp_path, name, begins), tmp_path / "weights.safetensors"
    execute_json(plan, "--steps", STEPS, "--save", tmp_path / "saved")
    done = export(plan, "state-dict", weights, "--checkpoint", tmp_path / "saved")
    assert done.returncode == 0, done.stderr
    assert f"step-{STEPS}" in done.stdout
    module = module_of(name)
    module.load_state_dict(load_file(weights), strict=True)  # neither missing nor unknown names
    trained = Reference(plan, module_of(name))
    before = {key: value.clone() for key, value in trained.module.state_dict().items()}
    trained.train(STEPS)
    trained.module.load_state_dict(trained.buffers[0], strict=False)
    assert difference(before, trained.module.state_dict()) > 100 * FLOAT32
    inputs, _ = trained.microbatch(0, 0)
    with torch.no_grad():
        found, expected = (m.eval()(**inputs) for m in (module, trained.module))
    assert difference({"output": found}, {"output": expected}) <= FLOAT32


def test_without_a_checkpoint_it_is_what_was_exported(tmp_path):
    weights = tmp_path / "weights.safetensors"
    done = export(plan_of(tmp_path, "gpt2", ["", "transformer.h.1"]), "state-dict", weights)
    assert done.returncode == 0, done.stderr
    expected = torch.export.load(model_path("gpt2")).state_dict
    found = load_file(weights)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert set(found) == set(module_of("gpt2").state_dict())


@pytest.mark.parametrize("form, words",
                         [("state-dict", ["nowhere", "holds no checkpoint", "--save"]),
                          ("torch-csv", ["--checkpoint", "torch-csv has no weights"])])
def test_mistakes_are_one_message_and_nothing_is_written(tmp_path, form, words):
    weights = tmp_path / "weights.safetensors"
    done = export(plan_of(tmp_path, "gpt2", ["", "transformer.h.1"]), form, weights,
                  "--checkpoint", "nowhere")
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr
    assert not weights.exists()


STANDING_STILL = {"kind": "sgd", "learning_rate": 1e-60}  # 0 in float32


@needs_backend
def test_a_model_without_weights_has_those_that_training_starts_from(tmp_path):
    """Also of what is frozen, which no checkpoint has."""
    frozen = ["tok_embeddings", "layers.0.norm1"]
    plan = write_plan(tmp_path, model_path("transformer-meta"), tokens(tmp_path),
                      ["", "layers.1"], 2, 4, optimizer=STANDING_STILL | {"frozen": frozen})
    initial, after = tmp_path / "initial.safetensors", tmp_path / "after.safetensors"
    done = export(plan, "state-dict", initial)
    assert done.returncode == 0, done.stderr
    found = load_file(initial)
    module_of("transformer-meta").load_state_dict(found, strict=True)
    execute_json(plan, "--steps", 1, "--save", tmp_path / "saved")
    trained = {name.removeprefix("parameter."): value
               for name, value in saved_tensors(tmp_path / "saved" / "step-1").items()
               if name.startswith("parameter.")}
    assert found.keys() - trained.keys() == {"tok_embeddings.weight", "layers.0.norm1.weight",
                                             "layers.0.norm1.bias"}
    assert all(torch.equal(found[name], value) for name, value in trained.items())
    assert found["tok_embeddings.weight"].std() > 0.5  # of nn.Embedding's normal distribution
    done = export(plan, "state-dict", after, "--checkpoint", tmp_path / "saved")
    assert done.returncode == 0, done.stderr
    assert initial.read_bytes() == after.read_bytes()


@needs_backend
def test_a_tied_tensor_is_initialised_under_each_of_its_names(tmp_path):
    weights = tmp_path / "weights.safetensors"
    done = export(plan_of(tmp_path, "gpt-meta", [""]), "state-dict", weights)
    assert done.returncode == 0, done.stderr
    found = load_file(weights)
    assert torch.equal(found["head.weight"], found["token_embedding.weight"])
    assert {value.dtype for value in found.values()} == {torch.bfloat16}


@needs_backend
def test_initialised_weights_are_not_written_between_the_lines_of_the_report(tmp_path,
                                                                             standard_output):
    done = export(plan_of(tmp_path, "gpt-meta", [""]), "state-dict", standard_output)
    assert done.returncode == 2 and "is standard output" in done.stderr
    assert not done.stdout


def test_what_no_module_initialises_is_named(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Linear):\n"
        "    def __init__(self):\n"
        "        super().__init__(4, 4)\n"
        "        self.left = nn.Parameter(torch.empty(4))\n"
        "    def forward(self, x):\n        return super().forward(x) * self.left\n"
        "def model():\n    return Net()\n"
        "def example_inputs():\n    return (torch.randn(4, 4),)\n")
    subprocess.run([sys.executable, ROOT / "tools" / "export_model.py", tmp_path / "net.py",
                    "--meta", "-o", tmp_path / "net.pt2"], check=True, capture_output=True)
    plan = write_plan(tmp_path, tmp_path / "net.pt2", tmp_path / "data.safetensors", [""], 1, 4)
    done = export(plan, "state-dict", tmp_path / "weights.safetensors")
    assert done.returncode == 2
    assert "has no values for `left`" in done.stderr and "gives it no values" in done.stderr
    assert not (tmp_path / "weights.safetensors").exists()
