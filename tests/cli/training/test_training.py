"""What a training run needs, over real processes: each equal to what PyTorch and transformers do
(recipes.py).

Tolerances are those of tests/cli/execute/test_execute_models.py, but for bf16, where they are
derived below.
"""

import os
import subprocess

import pytest

from pipelines import (PENSTOCK, any_device, difference, execute, execute_json, load_file,
                       model_path, needs_backend, save_file, torch)
from recipes import MixedRecipe, Recipe
from trainings import (ADAMW, FLOAT32, FLOAT64, FOUR, MIXED, ONE, STEPS, TWO, check, mixed_plan,
                       module_of, plan_of, saved_tensors)

pytestmark = needs_backend
RECIPES = {
    "frozen": {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.5,
               "frozen": ["transformer.h.0", "*.ln_2.bias"]},
    "first-stages-frozen": ADAMW | {"frozen": ["transformer.wte", "transformer.wpe",
                                               "transformer.h.0"]},
    "last-stages-frozen": ADAMW | {"frozen": ["transformer.h.1", "transformer.ln_f"]},
    "groups": ADAMW | {"no_decay": "norms_and_biases",
                       "groups": [{"parameters": ["transformer.h.0"], "learning_rate": 0.002,
                                   "weight_decay": 0.3},
                                  {"parameters": ["*.weight"], "weight_decay": 0.2}]},
    "everything": ADAMW | {"warmup_steps": 1, "decay": "cosine", "final_learning_rate": 0.001,
                           "clip_norm": 0.5, "no_decay": "norms_and_biases",
                           "frozen": ["transformer.h.0.ln_1"],
                           "groups": [{"parameters": ["transformer.wpe"], "learning_rate": 0.001}]},
}


@any_device
@pytest.mark.parametrize("recipe, begins, more", [
    ("frozen", ONE, {}),
    ("first-stages-frozen", FOUR, {"schedule": "zb-h1"}),
    ("last-stages-frozen", FOUR, {}),
    ("groups", TWO, {"schedule": "gpipe"}),
    ("everything", ONE, {}),
    ("everything", FOUR, {}),
    ("everything", TWO, {"data_parallel": 2}),
], ids=lambda value: value if isinstance(value, str) else None)
def test_a_recipe_trains_as_in_pytorch(tmp_path, recipe, begins, more):
    plan = plan_of(tmp_path, "gpt2-f64", begins, RECIPES[recipe], **more)
    check(tmp_path, plan, FLOAT64, Recipe(plan, module_of("gpt2-f64")))


@any_device
def test_float32_as_well(tmp_path):
    """With SGD: AdamW divides by the gradients' own size, also where they are roundings of 0 (of
    attention's key biases), which it makes steps of the learning rate."""
    recipe = {key: value for key, value in RECIPES["everything"].items() if key != "kind"} | {
        "kind": "sgd", "momentum": 0.5, "learning_rate": 0.05}
    plan = plan_of(tmp_path, "gpt2", FOUR, recipe)
    check(tmp_path, plan, FLOAT32, Recipe(plan, module_of("gpt2")))


def test_what_is_frozen_has_no_optimizer_state_and_stays_as_exported(tmp_path):
    plan = plan_of(tmp_path, "gpt2-f64", FOUR, RECIPES["first-stages-frozen"])
    trace = tmp_path / "trace.json"
    execute_json(plan, "--steps", 1, "--save", tmp_path / "saved", "--trace", trace)
    frozen = ("transformer.wte", "transformer.wpe", "transformer.h.0")
    names = {key.split(".", 1)[1] for key in saved_tensors(tmp_path / "saved" / "step-1")}
    assert names and not [name for name in names if name.startswith(frozen)]
    actions = trace.read_text()
    assert '"0SEND_F0"' in actions and '"1RECV_F0"' in actions
    assert '"3SEND_B0"' in actions
    # nothing before needs a gradient
    assert '"1SEND_B0"' not in actions and '"2SEND_B0"' not in actions


def test_what_was_trained_before_it_was_frozen_stays_so(tmp_path):
    first = plan_of(tmp_path, "gpt2-f64", TWO, ADAMW, name="first.yaml")
    then = plan_of(tmp_path, "gpt2-f64", FOUR, ADAMW | {"frozen": "transformer.h.0"},
                   name="then.yaml")
    execute_json(first, "--steps", 1, "--save", tmp_path / "saved")
    for steps in (2, 3):
        execute_json(then, "--steps", steps, "--resume", tmp_path / "saved",
                     "--save", tmp_path / "saved")
    before, after = (saved_tensors(tmp_path / "saved" / f"step-{step}") for step in (1, 3))
    parameters = [key for key in before if key.startswith("parameter.")]
    for key in parameters:
        stays = key.startswith("parameter.transformer.h.0")
        assert torch.equal(before[key], after[key]) == stays, key


def test_a_checkpoint_of_more_frozen_parameters_is_refused_with_the_way_to_go_on(tmp_path):
    first = plan_of(tmp_path, "gpt2-f64", TWO, ADAMW | {"frozen": "transformer.h.0"},
                    name="first.yaml")
    then = plan_of(tmp_path, "gpt2-f64", FOUR, ADAMW, name="then.yaml")
    execute_json(first, "--steps", 1, "--save", tmp_path / "saved")
    done = execute(then, "--steps", 2, "--resume", tmp_path / "saved")
    assert done.returncode == 2
    for words in ["`transformer.h.0.", "it was frozen when this was saved",
                  "Freeze it again (optimizer.frozen)", "penstock export --format state-dict"]:
        assert words in done.stderr, done.stderr
    weights = tmp_path / "weights.safetensors"
    export = [PENSTOCK, "export", first, "--format", "state-dict",
              "--checkpoint", tmp_path / "saved", "-o", weights]
    subprocess.run(export, check=True, capture_output=True)  # the cure
    export[2] = then
    refused = subprocess.run(export, capture_output=True, text=True)
    assert refused.returncode == 2
    assert ("it was frozen when this was saved" in refused.stderr
            and "Export with the plan" in refused.stderr)


@pytest.mark.parametrize("decay, more", [("cosine", {}), ("linear", {})])
def test_learning_rates_are_those_of_transformers_also_over_resumed_runs(tmp_path, decay, more):
    recipe = {"kind": "adamw", "learning_rate": 0.01, "warmup_steps": 2, "decay": decay} | more
    whole = plan_of(tmp_path, "gpt2-f64", TWO, recipe)
    reference = Recipe(whole, module_of("gpt2-f64"))
    losses, _, _ = reference.train(STEPS)
    saved, found = tmp_path / "saved", []
    for steps in (STEPS // 2, STEPS):
        resume = ["--resume", saved] if found else []
        found += execute_json(whole, "--steps", steps, "--save", saved, *resume)["losses"]
    assert found == pytest.approx(losses, rel=FLOAT64)


def ignoring(folder, name):
    """Its data with ever more targets left out, none of them in the first samples and all in the
    last."""
    data = load_file(model_path(name).with_name(f"{name}.data.safetensors"))
    generator = torch.Generator().manual_seed(3)
    target = data["target"]
    share = torch.linspace(0, 1, len(target)).unsqueeze(1)
    data["target"] = torch.where(torch.rand(target.shape, generator=generator) < share, -100,
                                 target)
    save_file(data, folder / "data.safetensors")
    return folder / "data.safetensors"


@any_device
@pytest.mark.parametrize("begins, more", [(FOUR, {}), (TWO, {"data_parallel": 2})],
                         ids=["four", "replicas"])
def test_each_target_of_the_global_batch_counts_the_same(tmp_path, begins, more):
    """The reference takes the whole global batch at once."""
    data = ignoring(tmp_path, "gpt2-f64")
    split = plan_of(tmp_path, "gpt2-f64", begins, ADAMW, data=data, name="split.yaml", **more)
    whole = plan_of(tmp_path, "gpt2-f64", ONE, ADAMW, data=data, microbatches=1, microbatch=8,
                    name="whole.yaml")
    losses, _, _ = Recipe(whole, module_of("gpt2-f64")).train(2)
    assert execute_json(split, "--steps", 2)["losses"] == pytest.approx(losses, rel=FLOAT64)


# bf16. The reference is the module that torch makes of the .pt2 (the Python one may choose other
# kernels, whose roundings are of 2^-8). Both sides run the same kernels on the same numbers, and
# what they add up is float32: nothing is left but the order of float32 sums of the loss (2^-24
# each, of 4 microbatches).
LLAMA = ["", "model.layers.0.mlp", "model.layers.1", "lm_head"]


def check_mixed(folder, plan):
    reference = MixedRecipe(plan)
    tensors = check(folder, plan, FLOAT32, reference)
    for name, master in reference.stepped.items():
        assert tensors[f"parameter.{name}"].dtype == torch.bfloat16
        found = tensors[f"optimizer.{name}.master"]
        assert found.dtype == torch.float32
        assert torch.equal(found.bfloat16(), tensors[f"parameter.{name}"])
        assert difference({name: found}, {name: master.detach()}) <= FLOAT32


def test_bf16_with_masters_equals_the_recipe_in_pytorch(tmp_path):
    check_mixed(tmp_path, mixed_plan(tmp_path, "llama-bf16", LLAMA, MIXED))


@pytest.fixture
def one_thread():
    """For torch here and for every rank started from here. Its layer norm adds up the gradients of
    its weights in bfloat16, rows of one thread first: with another number of threads they are other
    roundings of the same sums."""
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, {min(cores)})
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("one_thread")
def test_bf16_adds_up_the_uses_of_a_tied_embedding_in_float32(tmp_path):
    check_mixed(tmp_path, mixed_plan(tmp_path, "gpt2-bf16", TWO, MIXED))


@pytest.mark.usefixtures("one_thread")
def test_bf16_gradients_of_a_tied_embedding_are_those_of_autograd_but_for_its_rounding(tmp_path):
    """Autograd adds the gradients of a parameter's two uses in bfloat16, once in each microbatch:
    that rounds by at most 2^-8 of the sum. All other gradients are equal."""
    plan = mixed_plan(tmp_path, "gpt2-bf16", TWO, MIXED)
    execute_json(plan, "--steps", 1, "--dump-gradients", tmp_path / "gradients.safetensors")
    reference, tied = MixedRecipe(plan, apart=False), "transformer.wte.weight"
    _, expected, _ = reference.train(1)
    found = load_file(tmp_path / "gradients.safetensors")
    rounding = 2**-8 * (1 + FLOAT32) * reference.magnitudes[tied]
    assert ((found.pop(tied) - expected.pop(tied)).abs() <= rounding).all()
    assert difference(found, expected) <= FLOAT32


def error(found, exact):
    """The root mean square over the tensors of ‖found - exact‖ / ‖exact‖, and the largest."""
    errors = [float((found[name].double() - tensor.double()).norm() / tensor.double().norm())
              for name, tensor in exact.items()]
    return (sum(e * e for e in errors) / len(errors)) ** 0.5, max(errors)


# How much larger the errors of another device's kernels in bfloat16 may be. Both are sums of the
# same many roundings to 8 bits, whose signs are by chance, so they are as roundings are in the root
# mean square. One to the nearest is by at most half a unit in the last place, anywhere between:
# 1/2 / sqrt(3) units. A kernel that adds up in another order, or with less care, is off by up to a
# whole unit, at the very worst always: 1 unit, 2 sqrt(3) times as much.
OTHER_KERNELS = 2 * 3**0.5


@any_device
def test_bf16_is_as_exact_as_pytorchs_on_any_device(tmp_path):
    """Measured from the same weights in float32, the errors of the first step's gradients are at
    most OTHER_KERNELS times those of PyTorch's bf16 on the CPU.

    A loss is a mean over tokens of a function of their logits, whose gradient is a difference of
    two distributions, so of a length of at most sqrt(2): by Cauchy and Schwarz it is off by no more
    than sqrt(2) times the root mean square of the logits' errors, token by token. That is of first
    order: squares of errors, at most 1/4 of theirs each, are far below. AdamW steps the masters on
    these gradients in float32, by some 20 roundings of 2^-24.
    """
    plan = mixed_plan(tmp_path, "llama-bf16", ["", "model.layers.1"], ADAMW)
    exact, own = Recipe(plan, module_of("llama-bf16").float()), MixedRecipe(plan)
    logits = exact.outputs()
    off = (own.outputs().double() - logits.double()).norm(dim=-1).pow(2).mean().sqrt()
    losses, gradients, _ = exact.train(1)
    largest = error(own.train(1)[1], gradients)
    file, saved = tmp_path / "gradients.safetensors", tmp_path / "saved"
    run = execute_json(plan, "--steps", 1, "--dump-gradients", file, "--save", saved)
    found = load_file(file)
    assert found.keys() == gradients.keys()
    for mine, theirs in zip(error(found, gradients), largest, strict=True):
        assert 0 < mine <= OTHER_KERNELS * theirs
    assert abs(run["losses"][0] - losses[0]) <= OTHER_KERNELS * 2**0.5 * off
    stepper = MixedRecipe(plan)
    for name, master in stepper.stepped.items():
        master.grad = found[name].float()
    stepper.optimizer().step()
    tensors = saved_tensors(saved / "step-1")
    masters = {name: tensors[f"optimizer.{name}.master"] for name in stepper.stepped}
    assert (difference(masters, {name: master.detach() for name, master in stepper.stepped.items()})
            <= 20 * 2**-24)
    assert all(torch.equal(master.bfloat16(), tensors[f"parameter.{name}"])
               for name, master in masters.items())


def test_bf16_does_not_depend_on_the_split_and_goes_on_when_resumed(tmp_path):
    losses = [execute_json(mixed_plan(tmp_path, "llama-bf16", begins, MIXED,
                                      name=f"{len(begins)}.yaml"))["losses"]
              for begins in ([""], ["", "model.layers.1"])]
    assert losses[0] == pytest.approx(losses[1], rel=FLOAT32)
    plan, saved, found = tmp_path / "2.yaml", tmp_path / "saved", []
    for steps in (STEPS // 2, STEPS):
        resume = ["--resume", saved] if found else []
        found += execute_json(plan, "--steps", steps, "--save", saved, *resume)["losses"]
    assert found == losses[1]
    plain = plan_of(tmp_path, "llama-bf16", [""], MIXED)
    done = execute(plain, "--resume", saved)
    assert done.returncode == 2
    assert "of float32 masters" in done.stderr


@pytest.mark.parametrize("change, words", [
    ({"frozen": ["transformer.hh"]},
     ["optimizer.frozen[0]", "`transformer.hh`", "Did you mean transformer.h"]),
    ({"groups": [{"parameters": ["wtee"], "weight_decay": 0}]},
     ["optimizer.groups[0].parameters", "`wtee`"]),
    ({"frozen": "*"}, ["nothing of", "Freeze fewer"])])
def test_names_that_the_model_does_not_have_are_refused(tmp_path, change, words):
    done = execute(plan_of(tmp_path, "gpt2", TWO, ADAMW | change))
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr


def test_a_norm_that_is_not_finite_ends_the_run(tmp_path):
    done = execute(plan_of(tmp_path, "gpt2", TWO,
                           {"kind": "sgd", "learning_rate": 1e3, "clip_norm": 1e9}))
    assert done.returncode == 1
    assert "is nan" in done.stderr or "is inf" in done.stderr
