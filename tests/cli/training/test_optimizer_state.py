"""Replicas that share out the optimizer's state (ZeRO-1), over real processes: the bits of replicas
that each have all of it, and checkpoints that either kind of run goes on from."""

import pytest
import yaml

from pipelines import (execute, execute_json, load_file, model_path, needs_backend, torch, vectors,
                       write_plan)
from surviving import assert_undisturbed
from trainings import ADAMW, FOUR, MIXED, STEPS, TWO, mixed_plan, plan_of, saved_tensors

pytestmark = needs_backend

SGD = {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9}
TIED = "transformer.wte.weight"
SHARDED = {"optimizer_state": "sharded", "all_reduce": {"bucket": "20KB", "overlap": True}}


def rewritten(plan, name, **keys):
    """The plan with other keys, beside it."""
    content = yaml.safe_load(plan.read_text())
    path = plan.with_name(name)
    path.write_text(yaml.safe_dump(content | keys, sort_keys=False))
    return path


def replicated(plan):
    return rewritten(plan, "replicated.yaml", optimizer_state="replicated")


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for key, tensor in one.items():
        assert torch.equal(tensor, other[key]), key


KINDS = {
    "adamw": lambda folder: plan_of(folder, "gpt2", TWO, ADAMW, microbatches=8, microbatch=1,
                                    data_parallel=2, **SHARDED),
    "interleaved": lambda folder: plan_of(folder, "gpt2", FOUR, SGD, microbatches=8, microbatch=1,
                                          data_parallel=2, schedule="interleaved-1f1b",
                                          ranks=[0, 1, 0, 1], **SHARDED),
    "transmitted": lambda folder: plan_of(folder, "gpt2", TWO, ADAMW, microbatches=8, microbatch=1,
                                          data_parallel=2, shared_parameters={TIED: "transmit"},
                                          **SHARDED),
    "bf16": lambda folder: mixed_plan(folder, "gpt2-bf16", TWO, MIXED, microbatches=4,
                                      data_parallel=2, **SHARDED),
    "three": lambda folder: write_plan(folder, model_path("iterative"),
                                       vectors(folder, "x", 32, torch.float32, samples=72),
                                       ["", "iter_block@2"], 2, 2, steps=STEPS, optimizer=ADAMW,
                                       data_parallel=3, **SHARDED),
}


@pytest.mark.parametrize("kind", KINDS)
def test_trains_to_the_bits_of_replicated_state(tmp_path, kind):
    sharded = KINDS[kind](tmp_path)
    runs = []
    for name, plan in (("sharded", sharded), ("replicated", replicated(sharded))):
        runs.append((execute_json(plan, "--dump-gradients", tmp_path / f"{name}.safetensors",
                                  "--save", tmp_path / name)["losses"],
                     load_file(tmp_path / f"{name}.safetensors"),
                     saved_tensors(tmp_path / name / f"step-{STEPS}")))
    (losses, gradients, saved), expected = runs
    assert losses == expected[0]
    assert_equal(gradients, expected[1])
    assert any(key.startswith("optimizer.") for key in saved)
    assert_equal(saved, expected[2])
    for file in (tmp_path / "sharded" / f"step-{STEPS}").glob("stage-*"):
        assert file.read_bytes() == (tmp_path / "replicated" / file.parent.name /
                                     file.name).read_bytes()


def test_clips_by_the_same_norm_but_for_rounding(tmp_path):
    sharded = plan_of(tmp_path, "gpt2", TWO, ADAMW | {"clip_norm": 0.1}, microbatches=8,
                      microbatch=1, data_parallel=2, **SHARDED)
    one, other = execute_json(sharded), execute_json(replicated(sharded))
    assert one["gradient_norms"] == pytest.approx(other["gradient_norms"], rel=1e-6)
    assert one["losses"] == pytest.approx(other["losses"], rel=1e-6)


def test_goes_on_from_checkpoints_of_either_kind_and_any_number_of_replicas(tmp_path):
    """Sharded over two, replicated, one pipeline, sharded over four: as one run with all of it."""
    one = plan_of(tmp_path, "gpt2-f64", TWO, ADAMW, data=model_path("gpt2-f64").with_name(
        "gpt2-f64.data.safetensors"), microbatches=8, microbatch=1)
    two = rewritten(one, "two.yaml", data_parallel=2, microbatches=4, **SHARDED)
    four = rewritten(one, "four.yaml", data_parallel=4, microbatches=2, **SHARDED)
    saved = tmp_path / "saved"
    losses = []
    for steps, plan in enumerate((two, replicated(two), one, four, two), 1):
        losses += execute_json(plan, "--save", saved, "--resume", saved, "--steps",
                               steps)["losses"]
    whole = execute_json(one, "--save", tmp_path / "whole", "--steps", 5)
    assert losses == pytest.approx(whole["losses"], rel=1e-10)
    found = saved_tensors(saved / "step-5")
    expected = saved_tensors(tmp_path / "whole" / "step-5")
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor, rtol=1e-7, atol=1e-9)


def test_a_lost_rank_gets_its_part_back(tmp_path):
    assert_undisturbed(KINDS["adamw"](tmp_path), ["1 2 5 kill", "2 4 end kill", "3 6 copy kill"])


@pytest.mark.parametrize("keys, words", [
    ({"optimizer_state": "shared"}, ["optimizer_state", "`shared`", "Write replicated"]),
    ({"optimizer_state": "sharded", "data_parallel": 1, "microbatches": 8},
     ["optimizer_state", "there is one (data_parallel: 1)"])])
def test_what_cannot_be_sharded_is_refused(tmp_path, keys, words):
    plan = rewritten(KINDS["adamw"](tmp_path), "bad.yaml", **keys)
    done = execute(plan)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
