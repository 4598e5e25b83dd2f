"""A parameter of several stages of tensor groups, whose owner's parts each send what they hold to
the equal parts of the others: rows or columns of it, or the whole. Parts that have a term of its
gradient are in tests/backend/executor/update/broadcast_test.cpp."""

import re

import pytest

from grouping import (GPT2, GPT2_STAGES, ROWS, SEQUENCE, TRANSMIT, assert_close, changed, penstock,
                      split)
from pipelines import execute_json, load_file, needs_backend, torch
from recipes import Recipe
from trainings import ADAMW, FLOAT64, FOUR, MIXED, STEPS, check, mixed_plan, module_of, plan_of

pytestmark = needs_backend

TIED = "transformer.wte.weight"
CLIPPED = ADAMW | {"clip_norm": 0.5}


def holding(layout, values=None):
    """Megatron's pins, with the embedding in that layout."""
    return {"parameters": GPT2["parameters"] | {TIED: layout}, "values": values or {}}


def tied_plan(folder, begins=GPT2_STAGES, **keys):
    return plan_of(folder, "gpt2-f64", begins, CLIPPED,
                   **{"data_parallel": 2, "tensor_parallel": 2} | TRANSMIT | keys)


def shape_held(plan):
    """What a part has of the embedding."""
    shown = penstock("show", plan, "--stage", 0).stdout
    return re.search(rf"get_attr\[target={re.escape(TIED)}\]  # float64 (\[.*?\]), also", shown)[1]


@pytest.mark.parametrize("shape, begins, keys", [
    ("[16, 16]", GPT2_STAGES, {"sharding": ROWS}),
    ("[32, 8]", GPT2_STAGES, {"sharding": holding(split(1)), "schedule": "zb-h1"}),
    ("[16, 16]", FOUR, {"sharding": ROWS | SEQUENCE, "schedule": "interleaved-1f1b",
                        "ranks": [0, 1, 0, 1]}),
    ("[32, 16]", GPT2_STAGES, {"sharding": holding("whole")}),
    ("[16, 16]", GPT2_STAGES, {"sharding": holding(split(0)), "optimizer_state": "sharded"}),
], ids=["rows", "columns", "loops", "whole", "sharded state"])
def test_a_tied_embedding_trains_as_in_pytorch(tmp_path, shape, begins, keys):
    plan = tied_plan(tmp_path, begins, **keys)
    assert shape_held(plan) == shape
    check(tmp_path, plan, FLOAT64, Recipe(plan, module_of("gpt2-f64")))


def test_a_use_that_needs_another_layout_converts_what_its_stage_was_sent(tmp_path):
    """Both ends read the whole embedding for their part of the sequence, which leaves each part a
    term of the gradient, and sum these."""
    ends = {name: split(1) for name in ("transformer.wte", "transformer.ln_f", "lm_head")}
    plan = tied_plan(tmp_path, sharding=holding("whole", ends | SEQUENCE["values"]))
    for stage in (0, 1):
        assert "wte_weight, I, R)" in penstock("show", plan, "--stage", stage).stdout
    check(tmp_path, plan, FLOAT64, Recipe(plan, module_of("gpt2-f64")))


def test_only_the_owners_parts_have_state_and_both_ways_give_the_same_bits(tmp_path):
    transmitted = tied_plan(tmp_path, sharding=ROWS, data_parallel=1)
    replicated = changed(transmitted, "replicated.yaml", shared_parameters={TIED: "replicate"})
    runs = []
    for plan in (transmitted, replicated):
        folder = plan.with_suffix("")
        losses = execute_json(plan, "--save", folder)["losses"]
        runs.append((losses, [load_file(folder / f"step-{STEPS}" / f"stage-{stage}.safetensors")
                              for stage in (0, 1)]))
    assert runs[0][0] == runs[1][0]
    state = f"optimizer.{TIED}.exp_avg"
    assert [state in stage for _, stages in runs for stage in stages] == [True, False, True, True]
    for found, expected in zip(runs[0][1], runs[1][1], strict=True):
        assert all(torch.equal(tensor, expected[key]) for key, tensor in found.items())


def test_in_bf16_the_owners_parts_alone_have_the_master(tmp_path):
    plan = mixed_plan(tmp_path, "gpt2-bf16", GPT2_STAGES, MIXED, tensor_parallel=2, sharding=ROWS,
                      **TRANSMIT)
    execute_json(plan, "--steps", 3, "--save", tmp_path / "saved")
    first, last = (load_file(tmp_path / "saved" / "step-3" / f"stage-{stage}.safetensors")
                   for stage in (0, 1))
    master = first[f"optimizer.{TIED}.master"]
    assert master.dtype == torch.float32 and f"optimizer.{TIED}.master" not in last
    assert torch.equal(master.bfloat16(), last[f"parameter.{TIED}"])


def test_any_run_goes_on_from_its_checkpoints(tmp_path):
    """Sent parts, one rank, sent whole embeddings, replicated parts, the first."""
    parts = tied_plan(tmp_path, sharding=ROWS)
    one = plan_of(tmp_path, "gpt2-f64", [""], CLIPPED, name="one.yaml")
    whole = changed(parts, "whole.yaml", sharding=holding("whole"))
    copies = changed(parts, "copies.yaml", shared_parameters=None, optimizer_state="sharded")
    saved, losses = tmp_path / "saved", []
    for steps, plan in enumerate((parts, one, whole, copies, parts), 1):
        losses += execute_json(plan, "--save", saved, "--resume", saved, "--steps",
                               steps)["losses"]
    alone = execute_json(one, "--save", tmp_path / "alone", "--steps", 5)
    assert losses == pytest.approx(alone["losses"], rel=FLOAT64)
    assert_close(saved / "step-5", tmp_path / "alone" / "step-5")
