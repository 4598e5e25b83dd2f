"""Tensor groups, whose ranks run operators on parts, over real processes: two replicas of pipelines
of two ranks, each a group of two, train as the modules do in plain PyTorch. Every schedule, also in
float32, is in tests/backend/executor/pytorch_test.cpp."""

import functools
from pathlib import Path

import pytest
import yaml

from grouping import (BERT, GPT2, GPT2_STAGES, LLAMA, ROWS, SEQUENCE, assert_close, changed,
                      group_plan, split)
from pipelines import (Reference, any_device, assert_trains_as, execute, execute_json, load_file,
                       model_path, needs_backend, save_file, text_file, torch, vectors, write_plan)
from trainings import ADAMW, FLOAT32, FLOAT64, module_of, saved_tensors

pytestmark = needs_backend


SINGLE_INSIDE = {"llama-f64", "t5-f64"}  # compute a part in float32 all the same


@pytest.mark.parametrize("name, begins, keys", [
    ("gpt2-f64", GPT2_STAGES, {"sharding": GPT2}),
    ("gpt2-f64", GPT2_STAGES, {"sharding": GPT2 | SEQUENCE, "schedule": "zb-h1"}),
    ("gpt2-f64", GPT2_STAGES, {"sharding": ROWS | {"gathered": "again"}}),
    ("gpt2", GPT2_STAGES, {"sharding": GPT2 | SEQUENCE}),
    ("bert-f64", ["", "bert.encoder.layer.1"], {"sharding": BERT}),
    ("llama-f64", ["", "model.layers.0.mlp", "model.layers.1", "lm_head"],
     {"sharding": LLAMA, "schedule": "interleaved-1f1b", "ranks": [0, 1, 0, 1]}),
    ("t5-f64", ["", "encoder.block.1", "decoder.block.0", "decoder.block.1"],
     {"schedule": "zbv", "ranks": [0, 1, 1, 0]}),
    ("moe-f64", ["", "blocks.1"], {"schedule": "gpipe"}),
    ("unet-f64", ["", "up.0"], {}),
    ("resnet-f64", ["", "groups.1"], {}),
    ("vit-f64", ["", "layers.1"], {}),
], ids=lambda given: given if isinstance(given, str) else "")
def test_models_on_2_x_2_x_2_ranks_train_as_their_modules(tmp_path, name, begins, keys):
    plan = group_plan(tmp_path, name, begins, **keys)
    exact = name.endswith("-f64") and name not in SINGLE_INSIDE
    assert_trains_as(Reference(plan, module_of(name)), plan, 3, FLOAT64 if exact else FLOAT32)


@any_device
@pytest.mark.parametrize("name, keys", [
    ("gpt2-f64", {"sharding": GPT2 | SEQUENCE}),
    ("gpt2-f64", {"sharding": ROWS | {"gathered": "again"}, "schedule": "zb-h1"}),
    ("gpt2", {"sharding": GPT2 | SEQUENCE, "optimizer_state": "sharded", "data_parallel": 2}),
], ids=lambda given: given if isinstance(given, str) else "")
def test_groups_train_as_their_module_on_any_device(tmp_path, name, keys):
    plan = group_plan(tmp_path, name, GPT2_STAGES, **{"data_parallel": 1} | keys)
    exact = name.endswith("-f64")
    assert_trains_as(Reference(plan, module_of(name)), plan, 3, FLOAT64 if exact else FLOAT32)


DATA = {
    "pippy-f64": lambda folder: vectors(folder, "x", 32, torch.float64),
    "pippy": lambda folder: vectors(folder, "x", 512, torch.float32),
    "iterative-f64": lambda folder: vectors(folder, "x", 32, torch.float64),
    "image_classifier-f64": lambda folder: vectors(folder, "image", None, torch.float64,
                                                   shape=[1, 28, 28]),
    "transformer-text-f64": text_file,
    "gpt": text_file,
}


@pytest.mark.parametrize("name, begins, keys", [
    ("pippy-f64", ["", "layer1"],
     {"sharding": {"parameters": {"layer1.0.weight": split(0)}, "values": {"layer1": split(1)}}}),
    ("pippy", ["", "layer1"], {}),
    ("iterative-f64", ["", "iter_block@1"], {}),
    ("iterative-f64", ["", "iter_block@1"],  # the same weights in both stages
     {"sharding": {"parameters": {"iter_block.0.weight": split(1)}}}),
    ("image_classifier-f64", ["", "stage1"], {}),
    ("transformer-text-f64", ["", "layers.1"],
     {"sequence": 16, "sharding": {"parameters": {"*.in_proj_weight": split(0, 3),
                                                  "*.out_proj.weight": split(1)}}}),
    ("gpt", ["", "blocks.1"], {"sequence": 16}),
], ids=lambda given: given if isinstance(given, str) else "")
def test_the_other_models_train_as_their_modules(tmp_path, name, begins, keys):
    plan = write_plan(tmp_path, model_path(name), DATA[name](tmp_path), begins, 2, 2,
                      data_parallel=2, tensor_parallel=2, **keys)
    tolerance = FLOAT64 if name.endswith("-f64") else FLOAT32
    assert_trains_as(Reference(plan, module_of(name)), plan, 3, tolerance)


def test_forwards_alone_give_the_outputs_of_the_module(tmp_path):
    plan = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE)
    expected = changed(plan, "whole.yaml", tensor_parallel=None, data_parallel=1, microbatches=4,
                       sharding=None)
    outputs = []
    for each in (plan, expected):
        file = each.with_suffix(".safetensors")
        done = execute(each, "--forward-only", "--output", file)
        assert done.returncode == 0, done.stderr
        outputs.append(load_file(file))
    torch.testing.assert_close(*outputs, rtol=FLOAT64, atol=FLOAT64)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_what_is_gathered_again_is_not_held_and_changes_no_bit(tmp_path, schedule):
    kept = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE,
                      schedule=schedule, optimizer=ADAMW)
    again = changed(kept, "again.yaml", sharding=GPT2 | SEQUENCE | {"gathered": "again"})
    runs = {plan: execute_json(plan, "--save", plan.with_suffix("")) for plan in (kept, again)}
    assert runs[again]["losses"] == runs[kept]["losses"]
    found, expected = (saved_tensors(plan.with_suffix("") / "step-3") for plan in (again, kept))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    held, before = (runs[plan]["peak_memory_bytes"] for plan in (again, kept))
    gathers = [rank for rank in range(8) if rank % 4 >= 2]  # the first block reads whole embeddings
    assert all(held[rank] < before[rank] for rank in gathers)


@pytest.mark.parametrize("keys", [
    {"recompute": True},
    {"transport": "gloo"},
    {"optimizer": ADAMW | {"clip_norm": 0.1}},
], ids=lambda keys: next(iter(keys)))
def test_trains_as_one_rank_does(tmp_path, keys):
    """Losses, norms of the gradients, and all that is saved: the optimizer's state, too."""
    optimizer = keys.get("optimizer", ADAMW)
    plan = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE,
                   optimizer=optimizer)
    if "recompute" in keys:
        stages = yaml.safe_load(plan.read_text())["stages"]
        plan = changed(plan, plan.name, stages=[stage | {"recompute": True} for stage in stages])
    whole = group_plan(tmp_path, "gpt2-f64", [""], microbatches=4, data_parallel=1,
                    tensor_parallel=1, optimizer=optimizer, name="whole.yaml")
    flags = ["--transport", keys["transport"]] if "transport" in keys else []
    found = execute_json(plan, "--save", tmp_path / "found", *flags)
    expected = execute_json(whole, "--save", tmp_path / "expected")
    assert found["losses"] == pytest.approx(expected["losses"], rel=FLOAT64)
    assert found["microbatch_losses"] == [pytest.approx(step, rel=FLOAT64)
                                          for step in expected["microbatch_losses"]]
    assert found.get("gradient_norms", []) == pytest.approx(expected.get("gradient_norms", []),
                                                            rel=FLOAT64)
    assert_close(tmp_path / "found" / "step-3", tmp_path / "expected" / "step-3")


def test_random_operators_draw_what_the_whole_model_draws(tmp_path):
    model, data = model_path("transformer-text-dropout"), text_file(tmp_path)
    whole = write_plan(tmp_path, model, data, [""], 4, 2, sequence=16, name="whole.yaml")
    parts = write_plan(tmp_path, model, data, ["", "layers.1"], 2, 2, sequence=16,
                       data_parallel=2, tensor_parallel=2,
                       sharding={"parameters": {"*.linear1.weight": split(0),
                                                "*.linear2.weight": split(1)}})
    expected = execute_json(whole)["losses"]
    assert execute_json(parts)["losses"] == pytest.approx(expected, rel=FLOAT32)


def test_by_part_each_part_draws_for_itself_whatever_the_pipeline(tmp_path):
    pins = {"parameters": {"*.linear1.weight": split(0), "*.linear2.weight": split(1)}}
    make = functools.partial(write_plan, tmp_path, model_path("transformer-text-dropout"),
                             text_file(tmp_path), microbatches=2, microbatch=2, sequence=16,
                             data_parallel=2, tensor_parallel=2)
    one = make([""], name="one.yaml", sharding=pins | {"random": "by_part"})
    two = make(["", "layers.1"], name="two.yaml", sharding=pins | {"random": "by_part"})
    exact = make([""], name="exact.yaml", sharding=pins | {"random": "exact"})
    losses = execute_json(one)["losses"]
    assert execute_json(two)["losses"] == pytest.approx(losses, rel=FLOAT32)
    assert execute_json(exact)["losses"] != pytest.approx(losses, rel=1e-3)


def validated(plan, name):
    """The plan with a validation set: 13 samples of its data."""
    content = yaml.safe_load(plan.read_text())
    data = Path(content["job"]["data"])
    file = plan.with_name(f"validation{data.suffix}")
    if "sequence" in content["job"]:
        file.write_bytes(data.read_bytes()[:13 * content["job"]["sequence"] + 1])
    else:
        save_file({key: value[:13].clone() for key, value in load_file(data).items()}, file)
    return changed(plan, name, job=content["job"] | {"validation": {"data": str(file), "every": 2}})


@pytest.mark.parametrize("name, begins, keys", [
    ("gpt2-f64", GPT2_STAGES, {"sharding": GPT2 | SEQUENCE}),
    ("resnet-f64", ["", "groups.1"], {}),
    ("vit-f64", ["", "layers.1"], {"schedule": "zb-h1"}),
    ("transformer-text-dropout", ["", "layers.1"], {"sequence": 16}),
], ids=lambda given: given if isinstance(given, str) else "")
def test_validation_sets_have_the_loss_of_replicas_that_are_not_split(tmp_path, name, begins, keys):
    """In microbatches of 2, and a smaller one, for which the parts run other graphs. Each replica
    has running statistics of its own."""
    data = text_file(tmp_path) if "sequence" in keys else model_path(name).with_name(
        f"{name}.data.safetensors")
    parts = write_plan(tmp_path, model_path(name), data, begins, 2, 2, data_parallel=2,
                       tensor_parallel=2, name="parts.yaml", **keys)
    kept = {key: value for key, value in keys.items() if key == "sequence"}
    whole = write_plan(tmp_path, model_path(name), data, [""], 2, 2, data_parallel=2,
                       name="whole.yaml", **kept)
    found, expected = (execute_json(validated(plan, f"validated-{plan.name}"))
                       for plan in (parts, whole))
    assert [one["step"] for one in found["validation"]] == [2, 3]
    tolerance = FLOAT64 if name.endswith("-f64") else FLOAT32
    assert found["losses"] == pytest.approx(expected["losses"], rel=tolerance)
    assert [one["loss"] for one in found["validation"]] == pytest.approx(
        [one["loss"] for one in expected["validation"]], rel=tolerance)
    assert execute_json(parts)["losses"] == found["losses"]
