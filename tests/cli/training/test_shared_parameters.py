"""Parameters of several stages over real processes: transmitted by their owner, they train as in
PyTorch and as replicated ones do.

Tolerances are those of tests/cli/execute/test_execute_models.py. With two holders the sums of both
ways are of the same two numbers, so that they are equal bit for bit; with three they are added in
another order.
"""

import re
import subprocess

import pytest
import yaml

from pipelines import (PENSTOCK, Reference, any_device, difference, execute, execute_json,
                       load_file, model_path, needs_backend, torch, vectors, write_plan)
from recipes import Recipe
from trainings import (ADAMW, FLOAT32, FLOAT64, FOUR, MIXED, ONE, STEPS, TWO, check, mixed_plan,
                       module_of, plan_of, saved_tensors)

pytestmark = needs_backend

TIED = "transformer.wte.weight"
TRANSMIT, REPLICATE = ({"shared_parameters": {TIED: way}} for way in ("transmit", "replicate"))
CLIPPED = ADAMW | {"clip_norm": 0.5}
STATES = {"optimizer.transformer.wte.weight.exp_avg", "optimizer.transformer.wte.weight.exp_avg_sq",
          "steps.transformer.wte.weight"}
LOOP = ["", "iter_block@1", "iter_block@2", "output_proj"]


@any_device
@pytest.mark.parametrize("begins, more",
                         [(TWO, {}), (FOUR, {"schedule": "zb-h1"}), (TWO, {"data_parallel": 2})],
                         ids=["two", "four", "replicas"])
def test_a_tied_embedding_trains_as_in_pytorch(tmp_path, begins, more):
    plan = plan_of(tmp_path, "gpt2-f64", begins, CLIPPED, **TRANSMIT, **more)
    check(tmp_path, plan, FLOAT64, Recipe(plan, module_of("gpt2-f64")))


@any_device
def test_and_in_float32(tmp_path):
    """With SGD, for the reason in test_training.test_float32_as_well."""
    recipe = {"kind": "sgd", "momentum": 0.5, "learning_rate": 0.05, "clip_norm": 0.5}
    plan = plan_of(tmp_path, "gpt2", FOUR, recipe, **TRANSMIT)
    check(tmp_path, plan, FLOAT32, Recipe(plan, module_of("gpt2")))


@any_device
@pytest.mark.parametrize("name, begins, tolerance", [
    ("iterative", LOOP[:2], FLOAT32), ("iterative-f64", LOOP, FLOAT64)],
                         ids=["two-float32", "four-float64"])
def test_an_unrolled_loop_trains_as_in_pytorch(tmp_path, name, begins, tolerance):
    model = model_path(name)
    data = vectors(tmp_path, "x", 32, torch.float64 if name.endswith("f64") else torch.float32)
    shared = dict.fromkeys(("iter_block.0.weight", "iter_block.0.bias"), "transmit")
    plan = write_plan(tmp_path, model, data, begins, 4, 2, steps=STEPS, shared_parameters=shared,
                      optimizer={"kind": "sgd", "learning_rate": 0.05, "momentum": 0.5,
                                 "clip_norm": 1})
    check(tmp_path, plan, tolerance, Recipe(plan))


def test_both_ways_are_equal_to_the_last_bit_and_only_the_owner_has_optimizer_state(tmp_path):
    runs = {}
    for way, shared in (("transmit", TRANSMIT), ("replicate", REPLICATE)):
        plan = plan_of(tmp_path, "gpt2-f64", TWO, CLIPPED, name=f"{way}.yaml", **shared)
        run = execute_json(plan, "--save", tmp_path / way)
        stages = [load_file(tmp_path / way / f"step-{STEPS}" / f"stage-{stage}.safetensors")
                  for stage in (0, 1)]
        runs[way] = (run["losses"], run["gradient_norms"],
                     saved_tensors(tmp_path / way / f"step-{STEPS}"))
        assert STATES <= stages[0].keys()
        assert STATES & stages[1].keys() == (set() if way == "transmit" else STATES)
        assert torch.equal(stages[0][f"parameter.{TIED}"], stages[1][f"parameter.{TIED}"])
    (losses, norms, tensors), expected = runs["transmit"], runs["replicate"]
    assert (losses, norms) == expected[:2]
    assert tensors.keys() == expected[2].keys()
    assert all(torch.equal(tensor, expected[2][key]) for key, tensor in tensors.items())


@pytest.mark.parametrize("first, then",
                         [(TRANSMIT, REPLICATE), (REPLICATE, TRANSMIT), (TRANSMIT, TRANSMIT)],
                         ids=["to-replicate", "to-transmit", "as-it-was"])
def test_a_checkpoint_goes_on_whichever_way_it_was_shared(tmp_path, first, then):
    whole = execute_json(plan_of(tmp_path, "gpt2-f64", TWO, CLIPPED, name="whole.yaml",
                                 **REPLICATE))["losses"]
    found, saved = [], tmp_path / "saved"
    for begins, shared in ((TWO, first), (FOUR, then)):
        plan = plan_of(tmp_path, "gpt2-f64", begins, CLIPPED, **shared)
        resume = ["--resume", saved] if found else []
        steps = STEPS if found else STEPS // 2
        run = execute_json(plan, "--steps", steps, "--save", saved, *resume)
        found += run["losses"]
    assert found == pytest.approx(whole, rel=FLOAT64)


def test_in_bf16_the_owner_alone_has_the_master(tmp_path):
    runs = []
    for way, shared in (("transmit", TRANSMIT), ("replicate", REPLICATE)):
        plan = mixed_plan(tmp_path, "gpt2-bf16", TWO, MIXED, name=f"{way}.yaml", **shared)
        runs.append(execute_json(plan, "--steps", 3, "--save", tmp_path / way)["losses"])
    assert runs[0] == runs[1]
    stages = [load_file(tmp_path / "transmit" / "step-3" / f"stage-{stage}.safetensors")
              for stage in (0, 1)]
    master = stages[0][f"optimizer.{TIED}.master"]
    assert master.dtype == torch.float32
    assert f"optimizer.{TIED}.master" not in stages[1]
    assert stages[1][f"parameter.{TIED}"].dtype == torch.bfloat16
    assert torch.equal(master.bfloat16(), stages[1][f"parameter.{TIED}"])


def test_what_is_frozen_is_not_sent(tmp_path):
    """The token embedding; the rest trains as if nothing were said of it."""
    recipe = ADAMW | {"frozen": TIED}
    runs = [execute_json(plan_of(tmp_path, "gpt2-f64", TWO, recipe, **shared), "--steps", 3)
            for shared in (TRANSMIT, {})]
    assert runs[0]["losses"] == runs[1]["losses"]


@any_device
def test_forwards_and_weights_do_not_depend_on_it(tmp_path):
    plan = plan_of(tmp_path, "gpt2-f64", FOUR, CLIPPED, **TRANSMIT)
    outputs = tmp_path / "outputs.safetensors"
    done = execute(plan, "--forward-only", "--output", outputs)
    assert done.returncode == 0, done.stderr
    [output] = load_file(outputs).values()
    assert difference({"output": output}, {"output": Reference(plan).outputs()}) <= FLOAT64
    execute_json(plan, "--steps", 2, "--save", tmp_path / "saved")
    weights = tmp_path / "weights.safetensors"
    subprocess.run([PENSTOCK, "export", plan, "--format", "state-dict", "--checkpoint",
                    tmp_path / "saved", "-o", weights], check=True, capture_output=True)
    reference = Recipe(plan_of(tmp_path, "gpt2-f64", ONE, CLIPPED), module_of("gpt2-f64"))
    reference.train(2)
    state = load_file(weights)
    assert torch.equal(state[TIED], state["lm_head.weight"])
    expected = {name: tensor for name, tensor in reference.module.state_dict().items()
                if name in state}
    assert difference({name: state[name] for name in expected}, expected) <= FLOAT64


@pytest.mark.parametrize("shared, words", [
    ({"transformer.wte.weights": "transmit"},
     ["shared_parameters.transformer.wte.weights", "Did you mean"]),
    ({"transformer.wpe.weight": "transmit"},
     ["shared_parameters.transformer.wpe.weight", "one rank alone"]),
    ({TIED: "send"}, [f"shared_parameters.{TIED}", "`send`", "transmit"]),
    ({TIED: "replicate", "lm_head.weight": "transmit"}, ["the same parameter", "one line"])],
    ids=["unknown", "of-one-rank", "word", "twice"])
def test_mistakes_are_refused(tmp_path, shared, words):
    done = execute(plan_of(tmp_path, "gpt2-f64", TWO, ADAMW, shared_parameters=shared))
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr


def test_a_plan_by_hand_says_which_in_show(tmp_path):
    plan = plan_of(tmp_path, "gpt2-f64", TWO, ADAMW, **TRANSMIT)
    shown = subprocess.run([PENSTOCK, "show", plan], check=True, capture_output=True,
                           text=True).stdout
    assert re.search(rf"{re.escape(TIED)} .* 0, 1, transmitted", shown), shown
    assert yaml.safe_load(plan.read_text())["shared_parameters"] == {TIED: "transmit"}
