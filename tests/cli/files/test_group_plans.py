"""Plans with tensor groups: what cannot be is refused, and what is shown and exported of them."""

import pytest

from grouping import GPT2, GPT2_STAGES, SEQUENCE, changed, group_plan, penstock, split
from pipelines import execute, needs_backend

pytestmark = needs_backend


def test_the_pipeline_of_groups_is_exported_as_any_other(tmp_path):
    plan = group_plan(tmp_path, "resnet-f64", ["", "groups.1"])
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
], ids=str)
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path, keys, words):
    plan = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, **keys)
    done = execute(plan, "--save", tmp_path / "saved")
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "saved").exists()


def test_what_is_split_where_it_is_made_crosses_to_the_next_stage_in_parts(tmp_path):
    plan = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2 | SEQUENCE)
    crossing = next(line for line in penstock("show", plan).stdout.splitlines() if "0 to 1" in line)
    assert "float64 [batch, 4, 16]" in crossing and crossing.count("1.00 KiB") == 2


def test_what_does_not_go_with_it_yet_says_so(tmp_path):
    plan = group_plan(tmp_path, "gpt2-f64", GPT2_STAGES, sharding=GPT2)
    done = penstock("export", plan, "--format", "deepspeed", "-o", tmp_path / "out")
    assert done.returncode == 2 and "tensor_parallel cannot be exported" in done.stderr
    assert not (tmp_path / "out").exists()
    shown = penstock("show", plan)
    assert shown.returncode == 0 and "2 replicas x 2 parts" in shown.stdout
    stage = penstock("show", plan, "--stage", 1)
    assert "torch.ops.penstock.all_reduce" in stage.stdout
