"""Replicas over real processes: the same numbers to the last bit whether gradients are summed
beside the backwards or behind them."""

import json

import pytest

from pipelines import (execute, execute_json, load_file, model_path, needs_backend, torch, vectors,
                       write_plan)
from trainings import ADAMW, FOUR, MIXED, ONE, STEPS, TWO, mixed_plan, plan_of, saved_tensors

pytestmark = needs_backend

CLIPPED = ADAMW | {"clip_norm": 0.5}
SMALL = "20KB"  # several buckets in a stage


def assert_equal(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[key]) for key, tensor in one.items())


def train(folder, plan):
    run = execute_json(plan, "--dump-gradients", folder / "gradients", "--save", folder / "saved")
    return (run["losses"], run.get("gradient_norms"), load_file(folder / "gradients"),
            saved_tensors(folder / "saved" / f"step-{STEPS}"))


def expect_the_same_both_ways(folder, make):
    """`make(folder, all_reduce)` returns a plan."""
    results = []
    for overlap in (True, False):
        own = folder / str(overlap)
        own.mkdir()
        results.append(train(own, make(own, {"bucket": SMALL, "overlap": overlap})))
    (losses, norms, gradients, saved), other = results
    assert (losses, norms) == other[:2]
    assert_equal(gradients, other[2])
    assert_equal(saved, other[3])


@pytest.mark.parametrize("begins, more", [
    (ONE, {"data_parallel": 2}),
    (TWO, {"data_parallel": 2, "schedule": "zb-h1"}),
    (FOUR, {"data_parallel": 2, "schedule": "interleaved-1f1b", "ranks": [0, 1, 0, 1]}),
    (FOUR, {"data_parallel": 2, "schedule": "zbv", "ranks": [0, 1, 1, 0]})],
    ids=["one", "zero-bubble", "interleaved", "v"])
def test_sums_beside_the_backwards_have_the_same_bits(tmp_path, begins, more):
    """GPT-2's embedding is tied: the first and the last rank sum it as well."""
    expect_the_same_both_ways(
        tmp_path, lambda folder, sums: plan_of(folder, "gpt2", begins, CLIPPED, microbatches=8,
                                               microbatch=1, all_reduce=sums, **more))


def test_over_three_replicas(tmp_path):
    """With three a sum depends on the place of a gradient in its bucket."""
    def make(folder, sums):
        data = vectors(folder, "x", 32, torch.float32, samples=72)
        return write_plan(folder, model_path("iterative"), data, ["", "iter_block@2"], 2, 2,
                          steps=STEPS, data_parallel=3, all_reduce=sums)
    expect_the_same_both_ways(tmp_path, make)


def test_in_bf16(tmp_path):
    expect_the_same_both_ways(
        tmp_path, lambda folder, sums: mixed_plan(folder, "gpt2-bf16", TWO, MIXED, microbatches=4,
                                                  data_parallel=2, all_reduce=sums))


def test_the_trace_of_a_replica_waits_for_sums_in_its_last_reduction_alone(tmp_path):
    """Simulated and real traces have the same actions, and sums where a plan has replicas."""
    plan = plan_of(tmp_path, "gpt2", FOUR, ADAMW, microbatches=8, microbatch=1, data_parallel=2,
                   schedule="interleaved-1f1b", ranks=[0, 1, 0, 1])
    done = execute(plan, "--trace", tmp_path / "trace.json")
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["penstock"]["events"]
    for rank in range(4):
        actions = [action for own, action, *_ in events if own == rank]
        stages = [rank % 2 + 2, rank % 2]
        assert [a for a in actions if "REDUCE" in a] == [f"{s}REDUCE_GRAD" for s in stages]


def test_a_mistake_in_all_reduce_names_its_place(tmp_path):
    plan = plan_of(tmp_path, "gpt2", ONE, ADAMW, data_parallel=2, all_reduce={"bucket": "0B"})
    done = execute(plan)
    assert done.returncode == 2
    assert "all_reduce.bucket: an empty bucket" in done.stderr
    assert "Give its size, as in 25MB." in done.stderr
