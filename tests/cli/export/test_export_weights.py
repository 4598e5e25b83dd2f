"""penstock export --format state-dict: trained weights load into the module that they came from."""

import pytest

from exporting import export
from pipelines import (Reference, difference, execute_json, load_file, model_path, needs_backend,
                       torch, write_plan)
from trainings import FLOAT32, module_of

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


def test_a_model_without_weights_says_so(tmp_path):
    done = export(plan_of(tmp_path, "gpt-meta", [""]), "state-dict",
                  tmp_path / "weights.safetensors")
    assert done.returncode == 2
    assert "has no values for" in done.stderr and "--meta" in done.stderr
    assert not (tmp_path / "weights.safetensors").exists()
