#!/usr/bin/env python3
"""One GPU: GPT-2 small's step under Penstock, with and without CUDA graphs, beside PyTorch's, eager
and compiled; and what a profile predicts beside what is measured. Prints Markdown, and puts it into
a page with --write.

    .venv/bin/python bench/gpu.py [--write docs/gpu.md] [--steps N] [--device cpu --small]

Needs build/penstock and .venv. All train configs/models/gpt.py from random weights on the same
tokens with AdamW in float32. Page and output have what was measured even where a part failed. Ends
with 1 where one did, and where a figure misses its limit (the options below; without a GPU only
those that are given count). --device cpu --small only shows that the bench itself works.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import torch
import yaml

from gpu_report import (Report, missed_by_prediction, missed_by_speed, show_prediction,
                        show_speed)
from reporting import PENSTOCK, ROOT, export, run

sys.path.insert(0, str(ROOT / "configs" / "models"))

import gpt

GPT2_SMALL = {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 50257, "tied": True}
TINY = {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 128, "tied": True}
# The GPU computes throughout at the first length; at the second its kernels are shorter than their
# launches.
SEQUENCES, TINY_SEQUENCES = (1024, 128), (16, 8)
BATCH = 16  # less, and a profile measures no CUDA graphs: that would take longer than a step
MICROBATCHES, TINY_MICROBATCHES = (1, 2, 4, 8), (1, 8)
# How PyTorch trains. The last one replays CUDA graphs; compiling takes longer than all else.
EAGER = {"eager": {"fused": None}, "fused": {"fused": True}}
COMPILED = {"compiled": {"fused": True, "mode": "default"},
            "replayed": {"fused": True, "mode": "reduce-overhead"}}
ADAMW = {"kind": "adamw", "learning_rate": 1e-4, "weight_decay": 0.01}
LIMITS = {"step": 0.03, "memory": 0.02, "eager": 1.0, "graphs": 1.0}
TIMEOUT_S = 600  # of a command; the longest is a profile


class Bench:
    """One model at one sequence length, in a folder of its own."""

    def __init__(self, folder, options, sequence):
        self.folder, self.options, self.sequence = folder, options, sequence
        self.settings = (TINY if options.small else GPT2_SMALL) | {"sequence": sequence}
        folder.mkdir(exist_ok=True)
        export("gpt", folder / "gpt.pt2", timeout=TIMEOUT_S, **self.settings)
        tokens = np.random.default_rng(0).integers(self.settings["vocabulary"],
                                                   size=4 * BATCH * sequence + 1)
        tokens.astype(np.uint16).tofile(folder / "tokens.bin")
        self.job = {"model": str(folder / "gpt.pt2"), "loss": "cross_entropy", "optimizer": ADAMW,
                    "data": str(folder / "tokens.bin"), "sequence": sequence, "global_batch": BATCH,
                    "steps": options.steps}
        (folder / "job.yaml").write_text(yaml.safe_dump({"penstock": "job", **self.job}))

    def penstock(self, command, *flags):
        return run(PENSTOCK, command, *flags, timeout=TIMEOUT_S)

    def execute(self, plan, graphs):
        return json.loads(self.penstock("execute", plan, "--json", "--device", self.options.device,
                                        "--steps", self.options.steps, *graph_flags(graphs)))

    def one_stage(self, microbatch, graphs):
        """What `execute` reports of it."""
        plan = self.folder / "plan.yaml"
        plan.write_text(yaml.safe_dump({
            "penstock": "plan", "version": 1, "job": self.job, "schedule": "1f1b",
            "microbatches": BATCH // microbatch, "microbatch": microbatch,
            "stages": [{"rank": 0, "begin": ""}]}))
        return self.execute(plan, graphs)

    def pytorch_s(self, microbatch, fused, mode=None):
        """The steps of the module, as one writes it by hand: lower quartile, median, upper
        quartile."""
        device = self.options.device
        module = gpt.model(**self.settings).to(device)
        optimizer = torch.optim.AdamW(module.parameters(), lr=ADAMW["learning_rate"],
                                      weight_decay=ADAMW["weight_decay"], fused=fused)

        def loss_of(tokens, targets):
            logits = module(tokens)
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets)

        if mode:
            torch.compiler.reset()
            loss_of = torch.compile(loss_of, mode=mode, dynamic=False)
            for parameter in module.parameters():  # else the first gradient lies in a graph's pool
                parameter.grad = torch.zeros_like(parameter)
        tokens = torch.from_numpy(np.fromfile(self.folder / "tokens.bin",
                                              dtype=np.uint16).astype(np.int64))
        tokens = tokens.pin_memory() if device == "cuda" else tokens
        length, seconds = self.sequence, []
        for step in range(self.options.steps):
            synchronise(device)
            begin = time.perf_counter()
            optimizer.zero_grad(set_to_none=mode is None)
            for first in range(0, BATCH, microbatch):
                start = ((step % 4) * BATCH + first) * length
                part = tokens[start:start + microbatch * length + 1].to(device, non_blocking=True)
                torch.compiler.cudagraph_mark_step_begin()
                loss = loss_of(part[:-1].view(microbatch, length), part[1:])
                (loss * microbatch / BATCH).backward()
            optimizer.step()
            loss.item()
            synchronise(device)
            seconds.append(time.perf_counter() - begin)
        return statistics.quantiles(seconds[3:], n=4)

    def speeds(self):
        """Seconds of a step: of PyTorch's ways, and of Penstock for each use of CUDA graphs."""
        for microbatch in self.microbatches():
            pytorch = {}
            for way, how in pytorch_ways(self.options).items():
                pytorch[way] = self.pytorch_s(microbatch, **how)
                if self.options.device == "cuda":
                    torch.cuda.empty_cache()  # others need it now
            done = {graphs: self.one_stage(microbatch, graphs)
                    for graphs in graph_settings(self.options)}
            yield {"sequence": self.sequence, "microbatch": microbatch, "pytorch": pytorch,
                   "steps": {graphs: run_["measured_step_s"] for graphs, run_ in done.items()},
                   "graphs": done["auto"]["cuda_graphs"][0] if "auto" in done else None}

    def microbatches(self):
        return self.options.microbatches or (TINY_MICROBATCHES if self.options.small
                                             else MICROBATCHES)

    def predictions(self):
        """(predicted, measured) by profile and execute: a step of one stage with the smallest
        microbatch and with the one that the planner takes, its memory, and the step as the sum of
        the times of its operators."""
        profile, plan = self.folder / "profile.json", self.folder / "planned.yaml"
        self.penstock("profile", self.folder / "job.yaml", "--device", self.options.device,
                      "--ranks", 1, "-o", profile)
        for microbatches in (BATCH, "auto"):
            for graphs in graph_settings(self.options):
                self.penstock("plan", profile, "--ranks", 1, "--microbatches", microbatches,
                              *graph_flags(graphs), "-o", plan)
                microbatch = yaml.safe_load(plan.read_text())["microbatch"]
                done = self.execute(plan, graphs)
                step = done["measured_step_s"]
                operators = self.operators_s(json.loads(profile.read_text()), microbatch)
                yield {"sequence": self.sequence, "microbatch": microbatch, "graphs": graphs,
                       "operators": (operators, step),
                       "step": (done["predicted_step_s"], step),
                       "memory": (done["predicted_peak_memory_bytes"][0],
                                  done["peak_memory_bytes"][0])}

    def operators_s(self, profile, microbatch):
        """F and B of all operators and the loss's F for each microbatch, and the optimizer's
        step."""
        costs = next(costs for costs in profile["microbatches"]
                     if costs["microbatch"] == microbatch)
        times = [operator["times"][action]["mean_s"] for operator in costs["operators"]
                 for action in ("forward", "backward")]
        once = sum(times) + costs["loss_forward"]["mean_s"]
        parameter_bytes = sum(p.numel() * p.element_size()
                              for p in gpt.model(**self.settings).parameters())
        stepping = (profile["optimizer_s_per_byte"] + profile["zero_s_per_byte"]) * parameter_bytes
        return BATCH // microbatch * once + stepping


def synchronise(device):
    if device == "cuda":
        torch.cuda.synchronize()


def pytorch_ways(options):
    return EAGER | COMPILED if options.device == "cuda" else EAGER


def graph_settings(options):
    return ["off", "auto"] if options.device == "cuda" else ["none"]


def graph_flags(graphs):
    return [] if graphs == "none" else ["--cuda-graphs", graphs]


def driver():
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, timeout=60).stdout.split()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown"


def header(options):
    sizes = TINY if options.small else GPT2_SMALL
    model = "A tiny GPT" if options.small else "GPT-2 small"
    model += f" ({', '.join(f'{name} {value}' for name, value in sizes.items())})"
    machine = "CPU: only to show that the bench works"
    if options.device == "cuda":
        machine = f"{torch.cuda.get_device_name()}, driver {driver()}, CUDA {torch.version.cuda}"
    return (f"{model} in float32, TF32 off, AdamW; {machine}, torch {torch.__version__}, "
            f"{date.today()}; medians of {options.steps - 3} steps of {BATCH} samples.")


def measure(folder, options):
    sequences = TINY_SEQUENCES if options.small else SEQUENCES
    limits = {name: getattr(options, f"{name}_limit") for name in LIMITS}
    report = Report(options.write, header(options))
    benches = {}

    def rows(kind, sequence):
        """Exports the model when its first row is asked for: what fails is a failure of that
        part."""
        if sequence not in benches:
            benches[sequence] = Bench(folder / str(sequence), options, sequence)
        yield from getattr(benches[sequence], kind)()

    for kind, show, missed in (("speeds", show_speed, missed_by_speed),
                               ("predictions", show_prediction, missed_by_prediction)):
        for sequence in sequences:
            report.add(f"{kind} at sequence {sequence}", rows(kind, sequence), show,
                       lambda row, missed=missed: missed(row, limits, sequences))
    return report


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="a tiny model")
    parser.add_argument("--steps", type=int, default=23,
                        help="of which the first three do not count; at least 5")
    parser.add_argument("--microbatches", type=int, nargs="+", metavar="N",
                        help="of the speeds; default: 1, 2, 4 and 8")
    parser.add_argument("--write", type=Path, help="the page whose marked part is replaced")
    helps = {"step": "relative, of the predicted step and of the sum over operators",
             "memory": "relative, of the predicted memory",
             "eager": "of Penstock's median step to the upper quartile of PyTorch's eager ones",
             "graphs": "of a step with CUDA graphs to one without, of small kernels"}
    for name, text in helps.items():
        parser.add_argument(f"--{name}-limit", type=float,
                            help=f"{text}; of a GPU: {LIMITS[name]:g}")
    options = parser.parse_args(arguments)
    if options.steps < 5:
        parser.error(f"--steps {options.steps}: the first three do not count; take at least 5")
    if options.device == "cuda":
        for name, limit in LIMITS.items():
            if getattr(options, f"{name}_limit") is None:
                setattr(options, f"{name}_limit", limit)
    return options


def main(arguments=None):
    options = parse(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("bench/gpu.py: torch finds no GPU; "
                 "--device cpu --small shows that the bench works")
    torch.set_float32_matmul_precision("highest")  # no TF32
    with tempfile.TemporaryDirectory() as folder:
        report = measure(Path(folder), options)
    print(report.text(), flush=True)
    for problem in report.problems:
        print(f"bench/gpu.py: {problem}", file=sys.stderr)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
