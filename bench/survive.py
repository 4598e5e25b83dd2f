#!/usr/bin/env python3
"""What `--survive local` costs: steps with it and without it, of the tutorial's transformer in the
size of configs/jobs/transformer.yaml on two ranks, without checkpoints and with one after each
step. Runs take turns. Prints Markdown, and puts it into a page with --write.

    .venv/bin/python bench/survive.py [--repeat N] [--steps N] [--write docs/survival.md]

Needs build/penstock and .venv, and a machine with nothing else to do.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import torch
import yaml
from reporting import PENSTOCK, export, processor, put, revision, table, versions

WARM_UP = 5
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


def timed(plan, how, flags, steps):
    """Losses of a run, and the median of its steps: from the end of one, as it is told, to the end
    of the next, with all that comes between."""
    shutil.rmtree(plan.with_name("saved"), ignore_errors=True)
    command = [PENSTOCK, "execute", plan, "--survive", how, "--steps", steps, "--json", *flags]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        told = [(time.perf_counter(), line) for line in process.stderr]
        said = process.stdout.read()
    if process.returncode != 0:
        sys.exit("".join(line for _, line in told))
    ends = [at for at, line in told if line.startswith("step ")][WARM_UP:]
    return json.loads(said)["losses"], statistics.median(map(float.__sub__, ends[1:], ends))


def measure(plan, name, flags, options):
    medians = {how: [] for how in HOW}
    for _ in range(options.repeat):
        losses = {}
        for how in HOW:
            losses[how], median_s = timed(plan, how, flags, options.steps)
            medians[how].append(median_s)
        if losses["off"] != losses["local"]:
            sys.exit(f"{name}: losses differ")
    off, local = (statistics.median(medians[how]) for how in HOW)
    return {"checkpoints": name, "without, ms": f"{1e3 * off:.1f}",
            "with, ms": f"{1e3 * local:.1f}", "longer": f"{100 * (local / off - 1):+.1f} %"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=5, help="runs of each kind (default: 5)")
    parser.add_argument("--steps", type=int, default=60, help="of a run (default: 60)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    options = parser.parse_args()
    if options.steps < WARM_UP + 2:
        parser.error(f"--steps: give at least {WARM_UP + 2}, of which the first do not count")
    with tempfile.TemporaryDirectory() as name:
        plan = prepare(Path(name))
        saving = ["--save", plan.with_name("saved"), "--save-every", 1]
        kinds = {"none": [], "after each step": saving}
        rows = [measure(plan, kind, flags, options) for kind, flags in kinds.items()]
    text = (f"{date.today()}, {revision()}, {processor()}, {os.cpu_count()} cores, {versions()}; "
            f"medians of {options.repeat} runs of {options.steps} steps, which took turns.\n\n"
            f"{table(rows)}")
    print(text)
    if options.write:
        put(options.write, "survive.py", text)


if __name__ == "__main__":
    sys.exit(main())
