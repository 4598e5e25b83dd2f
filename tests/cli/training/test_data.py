"""Data as a job may have it: shuffled, in shards, with a last batch that is smaller, of wide
tokens, made up. Each trains as torch's DataLoader feeds it, on every split.

Models are of float64, with the tolerance of tests/cli/execute/test_execute_models.py.
"""

import argparse
import itertools
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml
from torch.utils.data import DataLoader, TensorDataset

import orders
from pipelines import (PENSTOCK, ROOT, execute, execute_json, load_file,
                       model_path, needs_backend, save_file, text_file, torch, vectors, write_plan)

sys.path.insert(0, str(ROOT / "python"))

from penstock.exporter.export import run
from penstock.exporter.source import Source

pytestmark = needs_backend
FLOAT64 = 1e-10
SAMPLES, BATCH, STEPS = 22, 8, 7  # an epoch is two global batches and three quarters of one
SEED = 5
ONE, TWO, THREE = [""], ["", "layer1"], ["", "layer1", "layer2"]


def plan_of(folder, data, begins=ONE, microbatches=1, microbatch=BATCH, model="pippy-f64",
            name="plan.yaml", keys=None, **more):
    """A plan whose job has these keys as well."""
    path = write_plan(folder, model_path(model), "", begins, microbatches, microbatch, name=name,
                      seed=SEED, steps=STEPS, **more)
    plan = yaml.safe_load(path.read_text())
    plan["job"] |= {"data": data} | (keys or {})
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    return path


@pytest.fixture
def points(tmp_path):
    return str(vectors(tmp_path, "x", 32, torch.float64, samples=SAMPLES))


def batches(data, keys):
    """The global batches of a run, as a DataLoader makes them."""
    dataset = TensorDataset(data["x"], data["target"])
    last = keys.get("last_batch", "wrap")

    def epoch(number):
        return (orders.shuffled(SEED, number, len(dataset)) if keys.get("shuffle")
                else range(len(dataset)))

    if last == "wrap":  # one epoch after the other
        samples = list(itertools.chain(*map(epoch, range(STEPS * BATCH // SAMPLES + 1))))
        yield from DataLoader(dataset, batch_size=BATCH, sampler=samples)
    for number in itertools.count():
        yield from DataLoader(dataset, batch_size=BATCH, sampler=list(epoch(number)),
                              drop_last=last == "drop")


def trained(plan, data):
    """Losses of plain PyTorch, which takes each global batch at once."""
    job = yaml.safe_load(plan.read_text())["job"]
    module = torch.export.load(job["model"]).module()
    optimizer = torch.optim.SGD(module.parameters(), lr=job["optimizer"]["learning_rate"])
    losses = []
    for x, target in itertools.islice(batches(data, job), STEPS):
        loss = torch.nn.functional.cross_entropy(module(x=x), target)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


EPOCHS = [{"last_batch": "wrap"}, {"last_batch": "drop"}, {"last_batch": "pad"}, {"shuffle": True},
          {"shuffle": True, "last_batch": "drop"}, {"shuffle": True, "last_batch": "pad"}]


@pytest.mark.parametrize("keys", EPOCHS, ids=lambda keys: "-".join(map(str, keys.values())))
def test_epochs_are_those_of_a_data_loader_on_every_split(tmp_path, points, keys):
    expected = trained(plan_of(tmp_path, points, keys=keys), load_file(points))
    for begins, microbatches, microbatch, more in [
            (TWO, 8, 1, {"schedule": "zb-h1"}), (THREE, 2, 4, {}),
            (ONE, 4, 1, {"data_parallel": 2}), (TWO, 1, 2, {"data_parallel": 4})]:
        plan = plan_of(tmp_path, points, begins, microbatches, microbatch, keys=keys, **more)
        assert execute_json(plan)["losses"] == pytest.approx(expected, rel=FLOAT64)


def test_a_job_that_says_nothing_takes_samples_in_order_and_starts_over(tmp_path, points):
    plain = execute_json(plan_of(tmp_path, points, TWO, 2, 4))["losses"]
    wrapped = plan_of(tmp_path, points, TWO, 2, 4, keys={"last_batch": "wrap", "shuffle": False})
    assert execute_json(wrapped)["losses"] == plain


@pytest.mark.parametrize("keys", EPOCHS[3:], ids=lambda keys: "-".join(map(str, keys.values())))
def test_a_resumed_run_goes_on_in_the_same_order_to_the_last_bit(tmp_path, points, keys):
    plan, saved = plan_of(tmp_path, points, TWO, 2, 4, keys=keys), tmp_path / "saved"
    whole = execute_json(plan)["losses"]
    first = execute_json(plan, "--steps", 2, "--save", saved)["losses"]  # within an epoch
    assert first + execute_json(plan, "--resume", saved)["losses"] == whole


def test_shards_are_their_samples_one_after_the_other(tmp_path, points):
    data, names = load_file(points), []
    for first, last in [(0, 3), (3, 4), (4, 15), (15, SAMPLES)]:  # none a whole number of batches
        names.append(str(tmp_path / f"shard-{first}.safetensors"))
        save_file({key: tensor[first:last].clone() for key, tensor in data.items()}, names[-1])
    for keys in ({}, {"shuffle": True}):
        whole = execute_json(plan_of(tmp_path, points, TWO, 4, 2, keys=keys))["losses"]
        shards = plan_of(tmp_path, names, TWO, 4, 2, keys=keys)
        assert execute_json(shards)["losses"] == whole


def test_forwards_alone_take_samples_in_order(tmp_path, points):
    plan = plan_of(tmp_path, points, TWO, 4, 2, keys={"shuffle": True, "last_batch": "drop"})
    outputs = tmp_path / "outputs.safetensors"
    assert execute(plan, "--forward-only", "--output", outputs, "--steps", 2).returncode == 0
    x = load_file(points)["x"][:2 * BATCH]
    with torch.no_grad():
        expected = torch.export.load(model_path("pippy-f64")).module()(x=x)
    (found,) = load_file(outputs).values()
    torch.testing.assert_close(found, expected, rtol=FLOAT64, atol=0)


def test_padded_text_trains_as_the_windows_that_there_are(tmp_path):
    """A model with embeddings, whose padding has tokens of its own."""
    text = text_file(tmp_path, letters=32, size=8 * 10 + 1)  # ten windows: one batch and two more
    keys = {"sequence": 8, "last_batch": "pad"}
    plan = plan_of(tmp_path, str(text), ["", "transformer.h.1"], 4, 2, model="gpt2-f64", keys=keys)
    found = execute_json(plan, "--steps", 2)["losses"]
    module = torch.export.load(model_path("gpt2-f64")).module()
    tokens = torch.tensor(list(text.read_bytes()))
    inputs, target = tokens[:-1].view(10, 8), tokens[1:].view(10, 8)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for rows, loss in zip((slice(0, 8), slice(8, 10)), found, strict=True):
        own = torch.nn.functional.cross_entropy(module(tokens=inputs[rows]).flatten(0, 1),
                                                target[rows].flatten())
        assert loss == pytest.approx(own.item(), rel=FLOAT64)
        optimizer.zero_grad()
        own.backward()
        optimizer.step()


def test_tokens_train_the_same_at_any_width(tmp_path):
    text, found = text_file(tmp_path, letters=32), []
    tokens = np.frombuffer(text.read_bytes(), dtype=np.uint8)
    for name, width, keys in [("text.txt", np.uint8, {}), ("16.bin", np.uint16, {}),
                              ("32.bin", np.uint32, {"token_bytes": 4})]:
        tokens.astype(width).tofile(tmp_path / name)
        plan = plan_of(tmp_path, str(tmp_path / name), ["", "transformer.h.1"], 4, 2,
                       model="gpt2-f64", keys={"sequence": 8, "shuffle": True} | keys)
        found.append(execute_json(plan)["losses"])
    assert found[0] == found[1] == found[2]


def export(folder, name, *settings):
    """A model of configs/models or tests/models; returns its file."""
    path = next(ROOT / place / f"{name}.py" for place in ("configs/models", "tests/models")
                if (ROOT / place / f"{name}.py").exists())
    options = argparse.Namespace(output=str(folder / f"{name}.pt2"), static=False, decompose=False,
                                 meta=False, dtype="float64", seed=3)
    run(Source.load(str(path), list(settings)), options)
    return folder / f"{name}.pt2"


def penstock(folder, *arguments):
    return subprocess.run([str(PENSTOCK), *map(str, arguments)], cwd=folder, capture_output=True,
                          text=True)


def write_job(folder, model, loss="cross_entropy", **keys):
    job = {"penstock": "job", "model": str(model), "loss": loss,
           "optimizer": {"kind": "sgd", "learning_rate": 0.05}, "global_batch": 8, "steps": 3,
           "seed": SEED} | keys
    (folder / "job.yaml").write_text(yaml.safe_dump(job, sort_keys=False))


def planned(folder, *options):
    """The job's plan, by the chain of commands."""
    for arguments in (["profile", "job.yaml", "--quick", "-o", "profile.json"],
                      ["plan", "profile.json", *options, "-o", "plan.yaml"]):
        done = penstock(folder, *arguments)
        assert done.returncode == 0, done.stderr
    return folder / "plan.yaml"


def test_a_vocabulary_above_65536_from_job_to_training(tmp_path):
    vocabulary = 70000
    model = export(tmp_path, "gpt2", "layers=2", "hidden=8", "heads=2", "sequence=8",
                   f"vocabulary={vocabulary}")
    tokens = np.random.default_rng(1).integers(vocabulary, size=8 * 12 + 1)
    assert tokens.max() > 65535
    tokens.astype(np.uint32).tofile(tmp_path / "tokens.bin")
    write_job(tmp_path, model, data=["tokens.bin"], sequence=8)
    refused = penstock(tmp_path, "profile", "job.yaml", "-o", "profile.json")
    assert refused.returncode == 2 and not (tmp_path / "profile.json").exists()
    for words in ("tokens.bin: the model has 70000 tokens", "Write `token_bytes: 4` for uint32"):
        assert words in refused.stderr
    write_job(tmp_path, model, data=["tokens.bin"], sequence=8, token_bytes=4, shuffle=True)
    plan = planned(tmp_path, "--ranks", 2, "--data-parallel", 1)
    inputs = torch.tensor(tokens[:-1]).view(12, 8)
    target = torch.tensor(tokens[1:]).view(12, 8)
    rows = orders.shuffled(SEED, 0, 12)[:8]
    module = torch.export.load(model).module()
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(module(tokens=inputs[rows]).flatten(0, 1),
                                                 target[rows].flatten())
    assert execute_json(plan)["losses"][0] == pytest.approx(loss.item(), rel=FLOAT64)


@pytest.mark.parametrize("name, settings, loss, begin", [
    ("gpt2", ["layers=2", "hidden=16", "heads=2", "sequence=8", "vocabulary=32"], "cross_entropy",
     "transformer.h.1"),
    ("labelled", ["kind=causal"], "output", "head"),
    ("pippy", ["width=32", "hidden=48", "narrow=24"], "bce_with_logits", "layer1"),
    ("iterative", ["width=32"], "mse", None),
])
def test_made_up_data_from_job_to_training_is_the_same_on_every_split(tmp_path, name, settings,
                                                                      loss, begin):
    write_job(tmp_path, export(tmp_path, name, *settings), loss, data="random")
    plan = yaml.safe_load(planned(tmp_path, "--ranks", 1).read_text())
    losses = execute_json(tmp_path / "plan.yaml")["losses"]
    assert len(set(losses)) == 3
    splits = [{"data_parallel": 2, "microbatches": 2, "microbatch": 2}]
    if begin:
        splits.append({"data_parallel": 1, "microbatches": 4, "microbatch": 2,
                       "stages": [{"rank": 0, "begin": ""}, {"rank": 1, "begin": begin}]})
    for split in splits:
        other = tmp_path / "other.yaml"
        other.write_text(yaml.safe_dump(plan | split, sort_keys=False))
        assert execute_json(other)["losses"] == pytest.approx(losses, rel=FLOAT64)


def test_made_up_classes_are_as_hard_to_tell_as_chance(tmp_path):
    """Before training the loss is near ln(classes), as it is of classes without any relation."""
    plan = plan_of(tmp_path, "random", TWO, 64, 16)
    losses = execute_json(plan, "--steps", 1)["losses"]
    assert losses[0] == pytest.approx(np.log(10), rel=0.1)


MISTAKES = {  # keys of the job, and what is said of them
    "missing-shard": ({"data": ["a.safetensors", "gone.safetensors"]}, ["gone.safetensors"]),
    "other-shape": ({"data": ["a.safetensors", "wide.safetensors"]},
                    ["wide.safetensors: x: is float64 [samples, 33], but ",
                     "a.safetensors has float64 [samples, 32]"]),
    "no-target": ({"data": ["a.safetensors", "bare.safetensors"]},
                  ["bare.safetensors: has no tensor target"]),
    "no-samples": ({"data": ["a.safetensors", "none.safetensors"]},
                   ["none.safetensors: x: holds no samples"]),
    "kinds": ({"data": ["a.safetensors", "text.txt"]}, ["of different kinds"]),
    "large-batch": ({"data": "a.safetensors", "global_batch": 32},
                    ["global_batch: 32 samples, but the data has 22",
                     "`global_batch: 22` or less"]),
    "all-dropped": ({"data": "a.safetensors", "global_batch": 32, "last_batch": "drop"},
                    ["nothing is left of 22 samples"]),
    "padded-mse": ({"data": "a.safetensors", "loss": "mse", "last_batch": "pad"},
                   ["under `loss: mse` every sample counts", "`last_batch: drop`"]),
    "endless": ({"data": "random", "shuffle": True}, ["made-up data never ends"]),
    "class": ({"data": "class.safetensors"},
              ["class.safetensors: target of sample 3: target 10 is not in 0..9 or -100"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_before_anything_is_written(tmp_path, points, mistake):
    keys, says = MISTAKES[mistake]
    data = load_file(points)
    wrong = data["target"].clone()
    wrong[3] = 10
    for name, tensors in [("a", data), ("wide", data | {"x": torch.zeros(22, 33).double()}),
                          ("bare", {"x": data["x"]}), ("class", data | {"target": wrong}),
                          ("none", {key: tensor[:0].clone() for key, tensor in data.items()})]:
        save_file(tensors, tmp_path / f"{name}.safetensors")
    write_job(tmp_path, model_path("pippy-f64"), **keys)
    done = penstock(tmp_path, "profile", "job.yaml", "-o", "profile.json")
    assert done.returncode == 2, done.stderr
    for words in says:
        assert words in done.stderr
    assert done.stderr.count("\n") <= 2 and not (tmp_path / "profile.json").exists()


@pytest.mark.parametrize("keys, says", [
    ({}, ["22 samples: 2 global batches, 6 in a batch with the next epoch's first"]),
    ({"shuffle": True, "last_batch": "drop"},
     ["22 samples, shuffled: 2 global batches, 6 left out"]),
    ({"last_batch": "pad"}, ["a last one of 6, filled up"]),
    ({"global_batch": 11}, ["22 samples: 2 global batches\n"]),
    ({"data": "random"}, ["random: made up"]),
    ({"data": "gone.safetensors"}, ["gone.safetensors (not there)", "epoch", "not known: "]),
])
def test_show_says_what_the_data_of_a_job_is(tmp_path, points, keys, says):
    write_job(tmp_path, model_path("pippy-f64"), **({"data": points} | keys))
    done = penstock(tmp_path, "show", "job.yaml")
    assert done.returncode == 0
    shown = re.sub(r"\n {11}", " ", done.stdout)  # lines that are folded
    for words in says:
        assert words in shown
