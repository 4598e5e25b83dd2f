"""Shared by the tests of training: plans of the exported models, their modules, and a run that is
compared with its recipe in plain PyTorch (recipes.py)."""

import json
import sys
import zipfile

import pytest

from pipelines import (ROOT, difference, execute_json, load_file, model_path, torch, write_plan)

sys.path.insert(0, str(ROOT / "python"))

from penstock.exporter.source import Source

FLOAT32, FLOAT64 = 1e-5, 1e-10
STEPS = 6

ONE, TWO = [""], ["", "transformer.h.1"]
FOUR = ["", "transformer.h.0.mlp", "transformer.h.1", "transformer.h.1.mlp"]
ADAMW = {"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.1}
MIXED = ADAMW | {"warmup_steps": 1, "decay": "cosine", "no_decay": "norms_and_biases"}


def module_of(name):
    """The module that NAME.pt2 was exported from, with other weights."""
    path = model_path(name)
    with zipfile.ZipFile(path) as archive:
        facts = json.loads(archive.read("archive/extra/penstock.json"))
    source = Source.load(str(ROOT / "configs" / "models" / f"{name.split('-')[0]}.py"), [])
    source.given = facts["settings"]
    return source.call(source.model).to(getattr(torch, facts["dtype"]))


def plan_of(folder, model, begins, optimizer, data=None, microbatches=4, microbatch=2, **more):
    data = data or model_path(model).with_name(f"{model.removesuffix('-bf16')}.data.safetensors")
    replicas = more.get("data_parallel", 1)
    return write_plan(folder, model_path(model), data, begins, microbatches // replicas, microbatch,
                      optimizer=optimizer, steps=STEPS, **more)


def saved_tensors(folder):
    return {key: value for file in sorted(folder.glob("stage-*.safetensors"))
            for key, value in load_file(file).items()}


def check(folder, plan, tolerance, reference):
    """Trains with both and compares; returns what Penstock saved."""
    gradients, saved = folder / "gradients.safetensors", folder / "saved"
    run = execute_json(plan, "--dump-gradients", gradients, "--save", saved)
    losses, expected, norms = reference.train(STEPS)
    assert run["losses"] == pytest.approx(losses, rel=tolerance)
    assert run.get("gradient_norms", []) == pytest.approx(norms, rel=tolerance)
    assert difference(load_file(gradients), expected) <= tolerance
    tensors = saved_tensors(saved / f"step-{STEPS}")
    found = {key: value for key, value in tensors.items() if key.startswith("parameter.")}
    wanted = {f"parameter.{name}": value.detach() for name, value in reference.trained.items()}
    assert difference(found, wanted) <= tolerance
    return tensors


def mixed_plan(folder, model, begins, optimizer, **more):
    plan = plan_of(folder, model, begins, optimizer, **more)
    plan.write_text(plan.read_text().replace("job:\n", "job:\n  precision: bf16\n"))
    return plan
