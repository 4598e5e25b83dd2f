"""What ranks of tensor groups hold is saved whole, and any run goes on from it; so are parts of the
optimizer's state, and the copies that survive a lost part."""

import pytest

from grouping import (GPT2, GPT2_STAGES, ROWS, SEQUENCE, TRANSMIT, assert_close, changed,
                      group_plan, penstock)
from pipelines import execute_json, load_file, needs_backend, torch
from surviving import assert_undisturbed
from trainings import ADAMW, FLOAT64, module_of, saved_tensors

pytestmark = needs_backend


def test_any_run_goes_on_from_checkpoints_of_any_other(tmp_path):
    """2 x 2 x 2 ranks, one, a group of two alone, two pipelines of two: as one run of one rank."""
    one = group_plan(tmp_path, "gpt2-f64", [""], microbatches=4, data_parallel=1, tensor_parallel=1,
                  optimizer=ADAMW)
    group = changed(one, "group.yaml", tensor_parallel=2)
    eight = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE, optimizer=ADAMW,
                    name="eight.yaml")
    four = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, tensor_parallel=1, optimizer=ADAMW,
                   name="four.yaml")
    saved, losses = tmp_path / "saved", []
    for steps, plan in enumerate((eight, one, group, four, eight), 1):
        losses += execute_json(plan, "--save", saved, "--resume", saved,
                               "--steps", steps)["losses"]
    whole = execute_json(one, "--save", tmp_path / "whole", "--steps", 5)
    assert losses == pytest.approx(whole["losses"], rel=FLOAT64)
    assert_close(saved / "step-5", tmp_path / "whole" / "step-5")


def test_weights_go_back_to_python_whole_and_begin_other_runs(tmp_path):
    plan = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE)
    whole = group_plan(tmp_path, "gpt2-f64", [""], microbatches=4, data_parallel=1,
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


@pytest.mark.parametrize("keys", [
    {"data_parallel": 1}, {"data_parallel": 1, **TRANSMIT}, {"optimizer_state": "sharded"},
], ids=["replicated", "transmitted", "sharded"])
def test_a_lost_part_gets_its_part_back(tmp_path, keys):
    plan = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE, optimizer=ADAMW,
                   steps=5, **keys)
    assert_undisturbed(plan, ["1 2 3 kill", "2 4 end kill"])


SHARDED = {"optimizer_state": "sharded", "all_reduce": {"bucket": "5KB", "overlap": True}}


@pytest.mark.parametrize("name, begins, keys", [
    ("gpt2", GPT2_STAGES, {"sharding": GPT2 | SEQUENCE}),
    ("gpt2", [*GPT2_STAGES, "transformer.h.1.mlp", "lm_head"],
     {"sharding": ROWS, "schedule": "interleaved-1f1b", "ranks": [0, 1, 0, 1]}),
    ("gpt2", GPT2_STAGES, {"sharding": ROWS, **TRANSMIT}),
], ids=["columns", "tied rows", "transmitted rows"])
def test_state_shared_out_over_replicas_gives_the_bits_of_whole_state(tmp_path, name, begins, keys):
    sharded = group_plan(tmp_path, name, begins, optimizer=ADAMW, **SHARDED, **keys)
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
    one = group_plan(tmp_path, "gpt2-f64", [""], microbatches=4, data_parallel=1, tensor_parallel=1,
                  optimizer=ADAMW | {"clip_norm": 0.1})
    sharded = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE,
                      optimizer=ADAMW | {"clip_norm": 0.1}, name="sharded.yaml", **SHARDED)
    saved, norms = tmp_path / "saved", []
    for steps, plan in enumerate((sharded, one, sharded), 1):
        norms += execute_json(plan, "--save", saved, "--resume", saved,
                              "--steps", steps)["gradient_norms"]
    whole = execute_json(one, "--save", tmp_path / "whole")
    assert norms == pytest.approx(whole["gradient_norms"], rel=FLOAT64)
    assert_close(saved / "step-3", tmp_path / "whole" / "step-3")
