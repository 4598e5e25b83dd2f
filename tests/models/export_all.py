#!/usr/bin/env python3
"""Exports every model of the table below into a folder, in two processes: the tests read them
there.

    export_all.py OUT_FOLDER

It goes through the functions of tools/export_model.py, so that each file was compared with its
module. A model is the file NAME.py here or in configs/models. Those of TRAINED come with
NAME.data.safetensors and with what plain PyTorch makes of the module with this data:
NAME.trained.safetensors, and NAME.replicated.safetensors on two replicas. `stamp` is written last.
"""

import argparse
import copy
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "python"))

from penstock.exporter.cpu import limit_onednn

LIMIT = limit_onednn()  # before torch is loaded
import torch
from safetensors.torch import save_file
from penstock.exporter.export import build, run
from penstock.exporter.source import Source
from training import Training

SMALL = ["dim=32", "heads=4", "vocabulary=64", "sequence=16", "feedforward=64"]
FOUR, TWO = SMALL + ["layers=4"], SMALL + ["layers=2"]
TEXT = TWO + ["batch_first=true", "causal=true", "positions=true"]

GPT = ["layers=2", "hidden=32", "heads=4", "vocabulary=64", "sequence=16"]

# Name of the file, Python file, settings, then options of the exporter.
MODELS = [
    # The reference form of the tutorial's transformer: samples attend to each other.
    ("transformer-f32", "transformer", FOUR + ["dropout=0.0"], {}),
    ("transformer-f64", "transformer", FOUR + ["dropout=0.0"], {"dtype": "float64"}),
    ("transformer-dropout", "transformer", TWO + ["dropout=0.1"], {}),
    # The form that trains on text: samples are independent, the mask is a constant.
    ("transformer-text", "transformer", TEXT + ["dropout=0.0"], {}),
    ("transformer-text-f64", "transformer", TEXT + ["dropout=0.0"], {"dtype": "float64"}),
    ("transformer-text-dropout", "transformer", TEXT + ["dropout=0.1"], {}),
    ("transformer-meta", "transformer", TEXT + ["dropout=0.0"], {"meta": True}),
    ("transformer-static", "transformer", SMALL + ["layers=1", "dropout=0.0"], {"static": True}),
    # A GPT, its head tied to its token embedding in the one without weights.
    ("gpt", "gpt", GPT, {}),
    ("gpt-meta", "gpt", GPT + ["tied=true", "dtype=bfloat16"], {"meta": True}),
    # GPT-3 175B: without weights, but all of its graph.
    ("gpt3-meta", "gpt",
     ["layers=96", "hidden=12288", "heads=96", "sequence=2048", "vocabulary=50257",
      "dtype=bfloat16"], {"meta": True}),
    ("pippy", "pippy", [], {}),
    ("pippy-f64", "pippy", ["width=32", "hidden=48", "narrow=24"], {"dtype": "float64"}),
    ("iterative", "iterative", ["width=32"], {}),
    ("iterative-f64", "iterative", ["width=32"], {"dtype": "float64"}),
    ("image_classifier", "image_classifier", ["width=64"], {}),
    ("image_classifier-f64", "image_classifier", ["width=64"], {"dtype": "float64"}),
    # Tied weights, batch norm called twice, a skip connection over both calls, computed masks.
    ("everything", "everything", [], {}),
    ("everything-meta", "everything", [], {"meta": True}),
    ("everything-f64", "everything", [], {"dtype": "float64"}),
    ("lstm", "lstm", [], {}),
    ("lstm-f64", "lstm", [], {"dtype": "float64"}),
    # One parameter used twice, and through t(), expand, weight norm and a cast.
    ("parameters", "parameters", [], {}),
    ("parameters-f64", "parameters", [], {"dtype": "float64"}),
    # Two inputs, several outputs (a dictionary; an input, a size and None among them), the loss
    # first.
    ("outputs", "outputs", [], {}),
    # Parameters that the loss does not depend on.
    ("aside-f64", "aside", [], {"dtype": "float64"}),
    # Regions without gradient and with autocast; then as torch.export itself writes them.
    ("nested", "nested", [], {}),
    ("nested-f64", "nested", ["autocast=false"], {"dtype": "float64"}),
    ("nested-foreign", "nested", ["autocast=false"], {"foreign": True}),
    ("autocast-foreign", "nested", [], {"foreign": True}),
    # Writes to its input and to a buffer, as torch.export itself writes them.
    ("mutating-foreign", "mutating", [], {"foreign": True}),
    # Arguments of every kind; inputs of many types in a dictionary and a tuple.
    ("kinds", "kinds", [], {}),
    # pipe_split() in the model's code: taken out, and as torch.export itself writes it.
    ("markers-f64", "markers", [], {"dtype": "float64"}),
    ("markers-foreign", "markers", [], {"foreign": True}),
]

# The models that people know, at a small size, each in both precisions.
TEXT_SIZES = ["layers=2", "hidden=16", "heads=2", "vocabulary=32"]
TRAINED = {
    "gpt2": TEXT_SIZES + ["sequence=8"],
    "llama": TEXT_SIZES + ["sequence=8", "feedforward=24", "key_heads=1"],
    "bert": TEXT_SIZES + ["sequence=8"],
    "t5": TEXT_SIZES + ["sequence=8", "feedforward=32"],
    "moe": TEXT_SIZES + ["sequence=8", "feedforward=24", "experts=3"],
    # Convolutions with channels-last weights, batch norm, U-shaped skip connections.
    "unet": ["levels=2", "width=4", "side=8"],
    "resnet": ["blocks=1", "width=4", "side=8", "classes=5"],
    "vit": ["layers=2", "hidden=16", "heads=2", "side=8", "patch=4", "classes=5"],
}
MODELS += [(name + suffix, name, settings, flags) for name, settings in TRAINED.items()
           for suffix, flags in (("", {}), ("-f64", {"dtype": "float64"}))]

# For mixed precision, one with a tied embedding and one without; and one that reads bytes of text.
MODELS += [("gpt2-bf16", "gpt2", TEXT_SIZES + ["sequence=8"], {"dtype": "bfloat16"}),
           ("llama-bf16", "llama", TRAINED["llama"], {"dtype": "bfloat16"}),
           ("gpt2-bytes", "gpt2", ["layers=4", "hidden=32", "heads=4", "sequence=32"], {})]

# Models whose weights are also written as NAME.safetensors, to compare with.
STATES = ["unet", "parameters", "everything", "transformer-f64"]


def export(name, file, settings, flags, folder):
    path = next(p for p in (os.path.join(HERE, file + ".py"),
                            os.path.join(ROOT, "configs", "models", file + ".py"))
                if os.path.exists(p))
    source = Source.load(path, settings)
    output = os.path.join(folder, name + ".pt2")
    options = argparse.Namespace(output=output, static=False, decompose=False, meta=False,
                                 dtype=None, seed=0)
    vars(options).update(flags)
    began = time.monotonic()
    line = export_foreign(source, output) if "foreign" in flags else run(source, options, LIMIT)
    if name.removesuffix("-f64") in TRAINED:
        write_training(source, options, os.path.join(folder, name))
    print(f"{line} in {time.monotonic() - began:.1f} s", flush=True)


def write_training(source, options, path):
    """Random data, and what plain PyTorch makes of the module with it, on one and two replicas."""
    module, _, _ = build(source, options)
    inputs, target = random_data(source, module)
    save_file({**inputs, "target": target}, path + ".data.safetensors")
    for replicas, name in ((1, ".trained"), (2, ".replicated")):
        training = Training(copy.deepcopy(module), inputs, target, loss="cross_entropy",
                            optimizer={"kind": "sgd", "learning_rate": 0.05, "momentum": 0.5},
                            microbatches=4 // replicas, microbatch=2, replicas=replicas)
        save_file(five_steps(training), path + name + ".safetensors")


def random_data(source, module):
    """24 samples, which are 3 steps: the fourth starts over."""
    torch.manual_seed(1)
    dtype = next(module.parameters()).dtype
    parts = [source.call(source.example_inputs) for _ in range(6)]
    inputs = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    inputs = {name: value.to(dtype) if value.is_floating_point() else value
              for name, value in inputs.items()}
    with torch.no_grad():
        *sizes, classes = copy.deepcopy(module)(**inputs).shape
    return inputs, torch.randint(classes, sizes)


def five_steps(training):
    """Losses, the first gradients, parameters and each replica's buffers at the end, by name."""
    losses, gradients = training.train(5)
    named = {f"gradient.{name}": value for name, value in gradients.items()}
    named |= {f"parameter.{name}": value.detach() for name, value in training.parameters.items()}
    for replica, buffers in enumerate(training.buffers):
        named |= {f"buffer.{replica}.{name}": value for name, value in buffers.items()}
    return {"losses": torch.tensor(losses, dtype=torch.float64),
            **{name: value.contiguous().clone() for name, value in named.items()}}


def export_foreign(source, output):
    """What a user's own torch.export.save writes: not functional, no penstock.json."""
    torch.manual_seed(0)
    inputs = source.call(source.example_inputs)
    shapes = {name: {0: torch.export.Dim("batch")} for name in inputs}
    program = torch.export.export(source.call(source.model), (), inputs, dynamic_shapes=shapes)
    torch.export.save(program, output)
    return f"wrote {output} without Penstock's exporter"


def save_state(name, folder):
    """The values that torch itself reads from the file, under every name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its reader
        program = torch.export.load(os.path.join(folder, name + ".pt2"))
    tensors = {key: value.detach().contiguous().clone()
               for key, value in program.state_dict.items()}
    save_file(tensors, os.path.join(folder, name + ".safetensors"))


def export_each(models, folder, at_once=2):
    """A process for each model, `at_once` of them at a time; the first that fails ends this one,
    named."""
    context = multiprocessing.get_context("fork")  # torch is imported once, then copied
    waiting, running = list(reversed(models)), {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                process = context.Process(target=export, args=(*waiting[-1], folder),
                                          name=waiting.pop()[0])
                process.start()
                running[process.sentinel] = process
            for sentinel in multiprocessing.connection.wait(list(running)):
                process = running.pop(sentinel)
                process.join()
                if process.exitcode:
                    sys.exit(f"export_all.py: the export of {process.name} "
                             f"{ending(process.exitcode)}")
    finally:
        for process in running.values():
            process.kill()
            process.join()


def ending(exitcode):
    if exitcode > 0:
        return f"failed with exit status {exitcode}; what it said stands above"
    name = signal.Signals(-exitcode).name
    cure = ""
    if -exitcode == signal.SIGILL:
        cure = ("\n  The processor refused an instruction that it reports to have. "
                "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16, or AVX2, keeps oneDNN from using the newest.")
    return f"was killed by signal {-exitcode} ({name}){cure}"


def main(folder):
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)  # the models are tiny
    export_each(MODELS, folder)
    for name in STATES:
        save_state(name, folder)
    with open(os.path.join(folder, "stamp"), "w", encoding="utf-8") as stamp:
        stamp.write("".join(name + ".pt2\n" for name, *_ in MODELS))


if __name__ == "__main__":
    main(sys.argv[1])
