"""`execute --weights` with what Hugging Face's save_pretrained leaves: an index of shards, names
without the prefix of the model's class, another floating type; also for a model that was exported
without weights."""

import json
import sys

import pytest

from pipelines import (ROOT, Reference, execute, execute_json, model_path, needs_backend, save_file,
                       torch, write_plan)
from trainings import FLOAT32, module_of

sys.path.insert(0, str(ROOT / "tools"))

import export_model

pytestmark = needs_backend
PREFIX = "transformer."
SETTINGS = ["layers=2", "hidden=16", "heads=2", "vocabulary=32", "sequence=8"]


def given(seed):
    """A GPT-2 whose weights are in no exported file; its head is its embedding."""
    torch.manual_seed(seed)
    module = module_of("gpt2")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return module


def save_shards(module, folder, dtype=torch.float32):
    """As files of a hub: two shards and their index."""
    folder.mkdir()
    tensors = {name.removeprefix(PREFIX): value.detach().to(dtype).clone()
               for name, value in module.named_parameters()}
    half = len(tensors) // 2
    shards = {"model-00001-of-00002.safetensors": list(tensors)[:half],
              "model-00002-of-00002.safetensors": list(tensors)[half:]}
    for file, names in shards.items():
        save_file({name: tensors[name] for name in names}, folder / file)
    places = {name: file for file, names in shards.items() for name in names}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return folder


def plan_of(folder, model):
    return write_plan(folder, model, model_path("gpt2").with_name("gpt2.data.safetensors"),
                      ["", "transformer.h.1"], 4, 2)


@pytest.mark.parametrize("form", ["folder", "index"])
def test_an_index_of_shards_is_where_training_starts(tmp_path, form):
    module = given(1)
    shards = save_shards(module, tmp_path / "hub")
    plan = plan_of(tmp_path, model_path("gpt2"))
    done = execute(plan, "--steps", 1, "--weights",
                   shards if form == "folder" else shards / "model.safetensors.index.json")
    assert done.returncode == 0, done.stderr
    assert f"names lack the `{PREFIX}` of the model's" in done.stderr
    found = execute_json(plan, "--steps", 2, "--weights", shards)["losses"]
    assert found == pytest.approx(started_from(plan, module).train(2)[0], rel=FLOAT32)


def test_a_model_without_weights_takes_them_in_another_type(tmp_path):
    module = given(2)
    weights = {name: value.to(torch.bfloat16) for name, value in module.named_parameters()}
    shards = save_shards(module, tmp_path / "hub", torch.bfloat16)
    module.load_state_dict(weights, strict=False)
    pairs = [part for setting in SETTINGS for part in ("--set", setting)]
    path = tmp_path / "gpt2.pt2"
    assert export_model.main([str(ROOT / "configs" / "models" / "gpt2.py"), "-o", str(path),
                              "--meta", *pairs]) == 0
    plan = plan_of(tmp_path, path)
    found = execute_json(plan, "--steps", 2, "--weights", shards)["losses"]
    assert found == pytest.approx(started_from(plan_of(tmp_path, model_path("gpt2")), module)
                                  .train(2)[0], rel=FLOAT32)


def started_from(plan, module):
    """The reference of a plan, with the module's own values instead of the file's."""
    values = {name: value.clone() for name, value in module.state_dict().items()}
    reference = Reference(plan, module)
    module.load_state_dict(values)
    return reference


def test_a_frozen_parameter_keeps_the_given_value_over_a_resume(tmp_path):
    shards = save_shards(given(3), tmp_path / "hub")
    optimizer = {"kind": "sgd", "learning_rate": 0.05, "frozen": ["transformer.wpe"]}
    plan = write_plan(tmp_path, model_path("gpt2"),
                      model_path("gpt2").with_name("gpt2.data.safetensors"),
                      ["", "transformer.h.1"], 4, 2, optimizer=optimizer, steps=4)
    whole = execute_json(plan, "--weights", shards)["losses"]
    saved = tmp_path / "saved"
    first = execute_json(plan, "--weights", shards, "--steps", 2, "--save", saved)["losses"]
    assert first + execute_json(plan, "--resume", saved)["losses"] == whole


def test_all_that_does_not_fit_is_named_at_once(tmp_path):
    shards = save_shards(given(4), tmp_path / "hub")
    index = shards / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    file = content["weight_map"].pop("ln_f.weight")
    index.write_text(json.dumps(content))
    done = execute(plan_of(tmp_path, model_path("gpt2")), "--weights", shards)
    assert done.returncode == 2 and "lacks transformer.ln_f.weight" in done.stderr
    (shards / file).unlink()
    done = execute(plan_of(tmp_path, model_path("gpt2")), "--weights", shards)
    assert done.returncode == 2 and file in done.stderr
