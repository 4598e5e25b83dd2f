#!/usr/bin/env python3
"""One GPU: GPT-2 small's step under Penstock, with and without CUDA graphs, beside PyTorch's eager
step; and what a profile predicts beside what is measured. Prints Markdown, and puts it into a page
with --write.

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

from reporting import PENSTOCK, ROOT, export, put, run, table

sys.path.insert(0, str(ROOT / "configs" / "models"))

import gpt

GPT2_SMALL = {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 50257, "tied": True}
TINY = {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 128, "tied": True}
# The GPU computes throughout at the first length; at the second its kernels are shorter than their
# launches.
SEQUENCES, TINY_SEQUENCES = (1024, 128), (16, 8)
BATCH = 16  # less, and a profile measures no CUDA graphs: that would take longer than a step
MICROBATCHES, TINY_MICROBATCHES = (1, 2, 4, 8), (1, 8)
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

    def eager_s(self, microbatch, fused):
        """The steps of the module, as one writes it by hand: lower quartile, median, upper
        quartile."""
        device = self.options.device
        module = gpt.model(**self.settings).to(device)
        optimizer = torch.optim.AdamW(module.parameters(), lr=ADAMW["learning_rate"],
                                      weight_decay=ADAMW["weight_decay"],
                                      fused=True if fused else None)
        tokens = torch.from_numpy(np.fromfile(self.folder / "tokens.bin",
                                              dtype=np.uint16).astype(np.int64))
        tokens = tokens.pin_memory() if device == "cuda" else tokens
        length, seconds = self.sequence, []
        for step in range(self.options.steps):
            synchronise(device)
            begin = time.perf_counter()
            optimizer.zero_grad()
            for first in range(0, BATCH, microbatch):
                start = ((step % 4) * BATCH + first) * length
                part = tokens[start:start + microbatch * length + 1].to(device, non_blocking=True)
                logits = module(part[:-1].view(microbatch, length))
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), part[1:])
                (loss * microbatch / BATCH).backward()
            optimizer.step()
            loss.item()
            synchronise(device)
            seconds.append(time.perf_counter() - begin)
        return statistics.quantiles(seconds[3:], n=4)

    def speeds(self):
        """Seconds of a step: of both eager ones, and of Penstock for each use of CUDA graphs."""
        for microbatch in TINY_MICROBATCHES if self.options.small else MICROBATCHES:
            eager = {fused: self.eager_s(microbatch, fused) for fused in (False, True)}
            if self.options.device == "cuda":
                torch.cuda.empty_cache()  # others need it now
            done = {graphs: self.one_stage(microbatch, graphs)
                    for graphs in graph_settings(self.options)}
            yield {"sequence": self.sequence, "microbatch": microbatch, "eager": eager[False],
                   "fused": eager[True],
                   "steps": {graphs: run_["measured_step_s"] for graphs, run_ in done.items()},
                   "graphs": done["auto"]["cuda_graphs"][0] if "auto" in done else None}

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


def graph_settings(options):
    return ["off", "auto"] if options.device == "cuda" else ["none"]


def graph_flags(graphs):
    return [] if graphs == "none" else ["--cuda-graphs", graphs]


def milliseconds(seconds):
    return f"{1e3 * seconds:.2f} ms"


def megabytes(number):
    return f"{number / 1e6:.0f} MB"


def percent(said, found):
    return f"{100 * (said / found - 1):+.1f} %"


def best_eager_s(row):
    """Quartiles of the one with the shorter median."""
    return min(row["eager"], row["fused"], key=lambda quartiles: quartiles[1])


def show_graphs(graphs):
    """Whether a run used them, and why not; what its warm-up measured of a step's compute, where it
    did."""
    if graphs is None:
        return "-"
    text = "used" if graphs["on"] else f"not used: {graphs['why_not']}"
    if graphs["with_s"] > 0:
        text += (f" ({milliseconds(graphs['with_s'])} with, {milliseconds(graphs['without_s'])} "
                 "without)")
    return text


def show_speed(row):
    shown = {"sequence": row["sequence"], "microbatch": row["microbatch"],
             "PyTorch eager": milliseconds(row["eager"][1]),
             "fused AdamW": milliseconds(row["fused"][1])}
    for graphs, step in row["steps"].items():
        shown |= {f"Penstock, graphs {graphs}": milliseconds(step),
                  f"of the better eager, graphs {graphs}": f"{step / best_eager_s(row)[1]:.3f}"}
    return shown | {"CUDA graphs": show_graphs(row["graphs"])}


def show_prediction(row):
    shown = {key: row[key] for key in ("sequence", "microbatch", "graphs")}
    step = row["step"][1]
    shown |= {"step measured": milliseconds(step),
              "sum of operators": (f"{milliseconds(row['operators'][0])} "
                                   f"({percent(*row['operators'])})"),
              "step predicted": f"{milliseconds(row['step'][0])} ({percent(*row['step'])})"}
    return shown | {"memory measured": megabytes(row["memory"][1]),
                    "memory predicted": (f"{megabytes(row['memory'][0])} "
                                         f"({percent(*row['memory'])})")}


def place(row):
    return f"sequence {row['sequence']}, microbatch {row['microbatch']}"


def missed_by_speed(row, limits, sequences):
    """Penstock, by itself, is not slower than eager: its median is within eager's upper quartile;
    short kernels are faster by CUDA graphs."""
    step, (_, eager, slow) = list(row["steps"].values())[-1], best_eager_s(row)
    if limits["eager"] is not None and step > limits["eager"] * slow:
        yield (f"{place(row)}: a step takes {step / eager:.3f} of PyTorch's eager one, the limit "
               f"is {limits['eager']:g} of its upper quartile, {slow / eager:.3f}")
    if row["graphs"] is None or row["sequence"] != sequences[-1] or row["microbatch"] != 1:
        return
    ratio = row["steps"]["auto"] / row["steps"]["off"]
    if limits["graphs"] is not None and ratio >= limits["graphs"]:
        yield (f"{place(row)}: CUDA graphs ({show_graphs(row['graphs'])}) make a step {ratio:.3f} "
               f"of what it was, it is to be below {limits['graphs']:g}")


def missed_by_prediction(row, limits, sequences):
    """Without CUDA graphs, and where the device does not wait for its host: else the kernels are
    not all."""
    if row["graphs"] == "auto" or row["sequence"] != sequences[0]:
        return
    for key, name, limit in (("operators", "the sum of the operators", limits["step"]),
                             ("step", "the predicted step", limits["step"]),
                             ("memory", "the predicted memory", limits["memory"])):
        said, found = row[key]
        if limit is not None and abs(said / found - 1) > limit:
            yield (f"{place(row)}: {name} is off by {percent(said, found)}, the limit is "
                   f"{100 * limit:g} %")


class Report:
    """A page that grows part by part. Each is tried; what went wrong is told at the end."""

    def __init__(self, page, header):
        self.page, self.texts, self.problems = page, [header], []

    def add(self, name, rows, show, missed):
        """A table of the rows that there are; `missed` says which limits a row misses."""
        found, failed = [], None
        try:
            for row in rows:
                found.append(show(row))
                self.problems += missed(row)
        except (Exception, SystemExit) as error:  # of the bench, or of a command
            failed = f"{name} failed: {str(error) or type(error).__name__}"
            self.problems.append(failed)
        if found:
            self.texts.append(table(found))
        if failed:
            self.texts.append(f"**{' '.join(line.strip() for line in failed.splitlines()[:4])}**")
        self.write()

    def write(self):
        if self.page:
            put(self.page, "gpu.py", self.text())

    def text(self):
        return "\n\n".join(self.texts)


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
