#!/usr/bin/env python3
"""What `--survive local` costs: steps with it and without it, of the tutorial's transformer in the
size of configs/jobs/transformer.yaml on two ranks, without checkpoints and with one after each
step. Two runs take turns of some steps, one stopped while the other goes on, so that both meet what
else the machine does. Prints Markdown, and puts it into a page with --write.

    .venv/bin/python bench/survive.py [--repeat N] [--steps N] [--write docs/survival.md]

Needs build/penstock and .venv, and a machine with nothing else to do.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from itertools import pairwise
from pathlib import Path

import torch
import yaml
from reporting import PENSTOCK, export, processor, put, revision, table, versions

WARM_UP = 10
TURN = 6  # steps
MODEL = {"dim": 128, "feedforward": 512, "vocabulary": 256, "sequence": 64, "batch_first": "true",
         "causal": "true", "positions": "true", "dropout": 0}
JOB = {"model": "model.pt2", "loss": "cross_entropy", "data": "text", "seed": 0,
       "sequence": MODEL["sequence"], "global_batch": 16, "steps": 10_000,
       "optimizer": {"kind": "adamw", "learning_rate": 4e-4, "weight_decay": 0.01}}
PLAN = {"penstock": "plan", "version": 1, "job": JOB, "schedule": "1f1b", "microbatches": 4,
        "microbatch": 4,
        "stages": [{"rank": 0, "begin": ""}, {"rank": 1, "begin": "layers.4"}]}
HOW = "off", "local"


def prepare(folder):
    export("transformer", folder / "model.pt2", **MODEL)
    generator = torch.Generator().manual_seed(1)
    letters = torch.randint(MODEL["vocabulary"], (65536,), generator=generator)
    (folder / "text").write_bytes(bytes(letters.tolist()))
    plan = folder / "plan.yaml"
    plan.write_text(yaml.safe_dump(PLAN, sort_keys=False))
    return plan


class Run:
    """A run of the plan, which is stopped unless it is its turn."""

    def __init__(self, plan, how, flags, steps):
        shutil.rmtree(saved_of(plan, how), ignore_errors=True)
        command = [PENSTOCK, "execute", plan, "--survive", how, "--steps", steps, "--json", *flags]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.told = []
        self.turn(WARM_UP)

    def turn(self, steps):
        """Goes on for so many steps, as far as there are some. Their times are from the end of one,
        as it is told, to the end of the next, with all that comes between; the first has none."""
        os.killpg(self.process.pid, signal.SIGCONT)
        ends = []
        for line in self.process.stderr:
            self.told.append(line)
            if line.startswith("step "):
                ends.append(time.perf_counter())
            if len(ends) == steps:
                break
        os.killpg(self.process.pid, signal.SIGSTOP)
        return [end - begin for begin, end in pairwise(ends)]

    def losses(self):
        os.killpg(self.process.pid, signal.SIGCONT)
        said, told = self.process.communicate()
        if self.process.returncode != 0:
            sys.exit("".join([*self.told, told]))
        return json.loads(said)["losses"]


def saved_of(plan, how):
    return plan.with_name(f"saved-{how}")


def compared(plan, saving, steps):
    """Of two runs that take turns of TURN steps, the times of their steps."""
    runs = {}
    for how in HOW:
        flags = ["--save", saved_of(plan, how), "--save-every", 1] if saving else []
        runs[how] = Run(plan, how, flags, steps)
    times = {how: [] for how in HOW}
    for _ in range((steps - WARM_UP) // TURN):
        for how, run in runs.items():
            times[how] += run.turn(TURN)[1:]  # in the first the caches still hold the other's
    if len({tuple(run.losses()) for run in runs.values()}) > 1:
        sys.exit(f"{plan}: losses differ")
    return times


def measure(plan, name, saving, options):
    pairs = []
    for _ in range(options.repeat):
        times = compared(plan, saving, options.steps)
        pairs.append({how: statistics.median(times[how]) for how in HOW})
    off, local = (statistics.median(pair[how] for pair in pairs) for how in HOW)
    longer = sorted(pair["local"] / pair["off"] - 1 for pair in pairs)
    return {"checkpoints": name, "without, ms": f"{1e3 * off:.1f}",
            "with, ms": f"{1e3 * local:.1f}",
            "longer": f"{100 * statistics.median(longer):+.1f} %",
            "least and most": f"{100 * longer[0]:+.1f}, {100 * longer[-1]:+.1f} %"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=5, help="pairs of each kind (default: 5)")
    parser.add_argument("--steps", type=int, default=100, help="of a run, 100 at most, for of more "
                        "not each is told (default: 100)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    options = parser.parse_args()
    if not WARM_UP + TURN <= options.steps <= 100:
        parser.error(f"--steps: give {WARM_UP + TURN} to 100, of which the first do not count")
    with tempfile.TemporaryDirectory() as name:
        plan = prepare(Path(name))
        kinds = {"none": False, "after each step": True}
        rows = [measure(plan, kind, saving, options) for kind, saving in kinds.items()]
    text = (f"{date.today()}, {revision()}, {processor()}, {os.cpu_count()} cores, {versions()}; "
            f"medians of {options.repeat} pairs of runs of {options.steps} steps, which took "
            "turns.\n\n"
            f"{table(rows)}")
    print(text)
    if options.write:
        put(options.write, "survive.py", text)


if __name__ == "__main__":
    sys.exit(main())
