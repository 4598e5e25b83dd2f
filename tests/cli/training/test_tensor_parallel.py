"""Tensor groups, whose ranks run operators on parts, over real processes: two replicas of pipelines
of two ranks, each a group of two, train as the modules do in plain PyTorch; checkpoints are whole,
and any run goes on from them. Every schedule, also in float32, is in
tests/backend/executor/pytorch_test.cpp."""

import functools
import subprocess
from pathlib import Path

import pytest
import yaml

from pipelines import (PENSTOCK, Reference, assert_trains_as, execute, execute_json, load_file,
                       model_path, needs_backend, save_file, text_file, torch, vectors, write_plan)
from surviving import assert_undisturbed
from trainings import ADAMW, FLOAT32, FLOAT64, module_of, saved_tensors

pytestmark = needs_backend


def split(dimension, blocks=1):
    return {"split": dimension} | ({"blocks": blocks} if blocks > 1 else {})


GPT2 = {"parameters": {"*.c_attn.weight": split(1, 3), "*.attn.c_proj.weight": split(0),
                       "*.c_fc.weight": split(1), "*.mlp.c_proj.weight": split(0)}}
BERT = {"parameters": {"*.query.weight": split(0), "*.key.weight": split(0),
                       "*.value.weight": split(0), "*.attention.output.dense.weight": split(1),
                       "*.intermediate.dense.weight": split(0),
                       "*.layer.?.output.dense.weight": split(1)}}
LLAMA = {"parameters": {"*.q_proj.weight": split(0), "*.o_proj.weight": split(1),
                        "*.gate_proj.weight": split(0), "*.up_proj.weight": split(0),
                        "*.down_proj.weight": split(1)}}
ROWS = {"parameters": {"lm_head.weight": split(0)}}  # of the embedding, too: they are tied
SEQUENCE = {"values": {"transformer.h.?": split(1)}}
GPT2_STAGES = ["", "transformer.h.1"]


def plan_of(folder, model, begins, microbatches=2, microbatch=2, data_parallel=2, **keys):
    data = model_path(model).with_name(f"{model}.data.safetensors")
    return write_plan(folder, model_path(model), data, begins, microbatches, microbatch,
                      data_parallel=data_parallel, **{"tensor_parallel": 2} | keys)


def penstock(*arguments):
    return subprocess.run([PENSTOCK, *map(str, arguments)], capture_output=True, text=True,
                          check=False)


def changed(plan, name, **keys):
    """The plan with other keys, beside it; without those that are None."""
    path = plan.with_name(name)
    content = yaml.safe_load(plan.read_text()) | keys
    kept = {key: value for key, value in content.items() if value is not None}
    path.write_text(yaml.safe_dump(kept, sort_keys=False))
    return path


SINGLE_INSIDE = {"llama-f64", "t5-f64"}  # compute a part in float32 all the same


@pytest.mark.parametrize("name, begins, keys", [
    ("gpt2-f64", GPT2_STAGES, {"sharding": GPT2}),
    ("gpt2-f64", GPT2_STAGES, {"sharding": GPT2 | SEQUENCE, "schedule": "zb-h1"}),
    ("gpt2-f64", GPT2_STAGES, {"sharding": ROWS}),
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
    plan = plan_of(tmp_path, name, begins, **keys)
    exact = name.endswith("-f64") and name not in SINGLE_INSIDE
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
    plan = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE)
    expected = changed(plan, "whole.yaml", tensor_parallel=None, data_parallel=1, microbatches=4,
                       sharding=None)
    outputs = []
    for each in (plan, expected):
        file = each.with_suffix(".safetensors")
        done = execute(each, "--forward-only", "--output", file)
        assert done.returncode == 0, done.stderr
        outputs.append(load_file(file))
    torch.testing.assert_close(*outputs, rtol=FLOAT64, atol=FLOAT64)


@pytest.mark.parametrize("keys", [
    {"recompute": True},
    {"transport": "gloo"},
    {"optimizer": ADAMW | {"clip_norm": 0.1}},
], ids=lambda keys: next(iter(keys)))
def test_trains_as_one_rank_does(tmp_path, keys):
    """Losses, norms of the gradients, and all that is saved: the optimizer's state, too."""
    optimizer = keys.get("optimizer", ADAMW)
    plan = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE,
                   optimizer=optimizer)
    if "recompute" in keys:
        stages = yaml.safe_load(plan.read_text())["stages"]
        plan = changed(plan, plan.name, stages=[stage | {"recompute": True} for stage in stages])
    whole = plan_of(tmp_path, "gpt2-f64", [""], microbatches=4, data_parallel=1,
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


def assert_close(one, other):
    found, expected = saved_tensors(one), saved_tensors(other)
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor, rtol=1e-7, atol=1e-9, msg=key)


def test_any_run_goes_on_from_checkpoints_of_any_other(tmp_path):
    """2 x 2 x 2 ranks, one, a group of two alone, two pipelines of two: as one run of one rank."""
    one = plan_of(tmp_path, "gpt2-f64", [""], microbatches=4, data_parallel=1, tensor_parallel=1,
                  optimizer=ADAMW)
    group = changed(one, "group.yaml", tensor_parallel=2)
    eight = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE, optimizer=ADAMW,
                    name="eight.yaml")
    four = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, tensor_parallel=1, optimizer=ADAMW,
                   name="four.yaml")
    saved, losses = tmp_path / "saved", []
    for steps, plan in enumerate((eight, one, group, four, eight), 1):
        losses += execute_json(plan, "--save", saved, "--resume", saved,
                               "--steps", steps)["losses"]
    whole = execute_json(one, "--save", tmp_path / "whole", "--steps", 5)
    assert losses == pytest.approx(whole["losses"], rel=FLOAT64)
    assert_close(saved / "step-5", tmp_path / "whole" / "step-5")


def test_weights_go_back_to_python_whole_and_begin_other_runs(tmp_path):
    plan = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE)
    whole = plan_of(tmp_path, "gpt2-f64", [""], microbatches=4, data_parallel=1,
                    tensor_parallel=1, name="whole.yaml")
    execute_json(plan, "--save", tmp_path / "saved")
    weights = tmp_path / "weights.safetensors"
    done = penstock("export", plan, "--format", "state-dict", "--checkpoint", tmp_path / "saved",
                    "-o", weights)
    assert done.returncode == 0, done.stderr
    found, module = load_file(weights), module_of("gpt2-f64")
    assert {key: tensor.shape for key, tensor in found.items()} == {
        key: tensor.shape for key, tensor in module.state_dict().items()}
    saved = saved_tensors(tmp_path / "saved" / "step-3")
    assert torch.equal(found["lm_head.weight"], saved["parameter.transformer.wte.weight"])
    losses = [execute_json(each, "--weights", weights, "--steps", 1)["losses"]
              for each in (plan, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=FLOAT64)


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


@pytest.mark.parametrize("keys", [{}, {"optimizer_state": "sharded"}], ids=str)
def test_a_lost_part_gets_its_part_back(tmp_path, keys):
    plan = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE, optimizer=ADAMW,
                   data_parallel=2 if keys else 1, steps=5, **keys)
    assert_undisturbed(plan, ["1 2 3 kill", "2 4 end kill"])


SHARDED = {"optimizer_state": "sharded", "all_reduce": {"bucket": "5KB", "overlap": True}}


@pytest.mark.parametrize("name, begins, keys", [
    ("gpt2", GPT2_STAGES, {"sharding": GPT2 | SEQUENCE}),
    ("gpt2", [*GPT2_STAGES, "transformer.h.1.mlp", "lm_head"],
     {"sharding": ROWS, "schedule": "interleaved-1f1b", "ranks": [0, 1, 0, 1]}),
], ids=["columns", "tied rows"])
def test_state_shared_out_over_replicas_gives_the_bits_of_whole_state(tmp_path, name, begins, keys):
    sharded = plan_of(tmp_path, name, begins, optimizer=ADAMW, **SHARDED, **keys)
    replicated = changed(sharded, "replicated.yaml", optimizer_state="replicated")
    runs = []
    for plan in (sharded, replicated):
        saved, gradients = plan.with_suffix(".saved"), plan.with_suffix(".safetensors")
        losses = execute_json(plan, "--save", saved, "--dump-gradients", gradients)["losses"]
        runs.append((losses, load_file(gradients), saved_tensors(saved / "step-3")))
    assert runs[0][0] == runs[1][0]
    assert any(key.startswith("optimizer.") for key in runs[0][2])
    for found, expected in zip(runs[0][1:], runs[1][1:], strict=True):
        assert found.keys() == expected.keys()
        for key, tensor in expected.items():
            assert torch.equal(found[key], tensor), key


def test_state_shared_out_is_clipped_and_resumed_as_whole_state_is(tmp_path):
    one = plan_of(tmp_path, "gpt2-f64", [""], microbatches=4, data_parallel=1, tensor_parallel=1,
                  optimizer=ADAMW | {"clip_norm": 0.1})
    sharded = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE,
                      optimizer=ADAMW | {"clip_norm": 0.1}, name="sharded.yaml", **SHARDED)
    saved, norms = tmp_path / "saved", []
    for steps, plan in enumerate((sharded, one, sharded), 1):
        norms += execute_json(plan, "--save", saved, "--resume", saved,
                              "--steps", steps)["gradient_norms"]
    whole = execute_json(one, "--save", tmp_path / "whole")
    assert norms == pytest.approx(whole["gradient_norms"], rel=FLOAT64)
    assert_close(saved / "step-3", tmp_path / "whole" / "step-3")


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


def test_the_pipeline_of_groups_is_exported_as_any_other(tmp_path):
    plan = plan_of(tmp_path, "resnet-f64", ["", "groups.1"])
    for name in ("torch-csv", "torch-split"):
        texts = []
        for each in (plan, changed(plan, "whole.yaml", tensor_parallel=None)):
            done = penstock("export", each, "--format", name, "-o", tmp_path / "out")
            assert done.returncode == 0, done.stderr
            texts.append((tmp_path / "out").read_text())
        assert texts[0] == texts[1] != ""


@pytest.mark.parametrize("keys, words", [
    ({"tensor_parallel": 0}, ["tensor_parallel", "0"]),
    ({"tensor_parallel": 1, "sharding": GPT2},
     ["sharding", "one rank has nothing to split", "Add tensor_parallel"]),
    ({"sharding": {"parameters": {"*.c_attn.weight": {"blocks": 3}}}}, ["c_attn", "split"]),
    ({"sharding": {"parameters": {"*.c_attn.weight": "halves"}}},
     ["*.c_attn.weight", "`halves` is no layout", "{split: DIMENSION}"]),
    ({"sharding": {"parameters": {"*.c_atn.weight": split(1)}}},
     ["plan.yaml:", "*.c_atn.weight", "no parameter of"]),
    ({"sharding": {"parameters": {"*.c_attn.weight": split(1, 5)}}},
     ["plan.yaml:", "does not divide into 5 blocks of 2 equal parts"]),
    ({"sharding": {"parameter": {}}}, ["sharding", "parameter"]),
    ({"sharding": {"random": "some"}}, ["random", "`some` is not known", "by_part"]),
    ({"shared_parameters": {"transformer.wte.weight": "transmit"}},
     ["shared_parameters", "Write replicate"]),
], ids=str)
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path, keys, words):
    done = execute(plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, **keys), "--save", tmp_path / "saved")
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "saved").exists()


def test_what_is_split_where_it_is_made_crosses_to_the_next_stage_in_parts(tmp_path):
    plan = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE)
    crossing = next(line for line in penstock("show", plan).stdout.splitlines() if "0 to 1" in line)
    assert "float64 [batch, 4, 16]" in crossing and crossing.count("1.00 KiB") == 2


def test_what_does_not_go_with_it_yet_says_so(tmp_path):
    plan = plan_of(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2)
    done = penstock("export", plan, "--format", "megatron", "-o", tmp_path / "out")
    assert done.returncode == 2 and "tensor_parallel" in done.stderr
    assert not (tmp_path / "out").exists()
    shown = penstock("show", plan)
    assert shown.returncode == 0 and "2 replicas x 2 parts" in shown.stdout
    stage = penstock("show", plan, "--stage", 1)
    assert "torch.ops.penstock.all_reduce" in stage.stdout
