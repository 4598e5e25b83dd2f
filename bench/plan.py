#!/usr/bin/env python3
"""How long planning takes and how good its plans are: GPTs of growing depth, growing clusters, one
schedule and all, and GPT-3 175B against the layout that Megatron published for it. Prints Markdown;
needs build/penstock and .venv.

    .venv/bin/python bench/plan.py [--repeat N] [--layers N ...] [--gpt3]

Models are exported without weights and estimated (configs/devices/h100.yaml): nothing is run on a
device.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from reporting import PENSTOCK, ROOT, export, processor, run, table

CLUSTERS = ROOT / "configs" / "clusters"
TIMEOUT_S = 1800  # of a command; the longest search takes minutes
GPT3 = {"layers": 96, "hidden": 12288, "heads": 96, "sequence": 2048, "vocabulary": 50257,
        "dtype": "bfloat16"}


def profile(folder, layers, parts=()):
    """A profile of GPT-3 with so many of its layers, with tensor groups of so many parts, and the
    seconds that making it took."""
    model, job, path = (folder / f"gpt-{layers}.{end}" for end in ("pt2", "yaml", "json"))
    export("gpt", model, "--meta", timeout=TIMEOUT_S, **(GPT3 | {"layers": layers}))
    text = (ROOT / "configs" / "jobs" / "gpt3.yaml").read_text()
    job.write_text(text.replace("../../build/models/gpt3.pt2", str(model)))
    begin = time.perf_counter()
    spec = ROOT / "configs" / "devices" / "h100.yaml"
    groups = ["--tensor-parallel", ",".join(map(str, parts))] if parts else []
    run(PENSTOCK, "profile", job, "--device", "estimate", "--spec", spec, *groups, "-o", path,
        timeout=TIMEOUT_S)
    return path, time.perf_counter() - begin


def plan(profile_path, *options, repeat=1):
    """What `plan` says, by the names that the tables use."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeat):
            begin = time.perf_counter()
            text = run(PENSTOCK, "plan", profile_path, "--fastest", "--verbose",
                       "-o", Path(folder) / "plan.yaml", *options, timeout=TIMEOUT_S)
            seconds.append(time.perf_counter() - begin)
    searched = re.search(r"searched +(\d+)?.* on \d+ ranks: (\d+) layouts?, \d+ looked into, (\d+)",
                         text)
    binding = re.search(r"^binding +(\w+)", text, re.M)
    return {"seconds": statistics.median(seconds), "units": searched[1] or "given",
            "layouts": searched[2], "simulated": searched[3],
            "step": re.search(r"^step +([\d.]+ \w+)", text, re.M)[1],
            "gap": re.search(r"the plan is ([\d.]+) % above", text)[1],
            "binds": binding[1] if binding else "-",
            "plan": re.search(r"^plan +(.*)", text, re.M)[1],
            "complete": "yes" if "every other plan was simulated" in text else "no",
            "open": left_open(text)}


def left_open(text):
    """The share by which a step may be shorter, as the proof says."""
    proof = re.search(r"^proof +(.*)", text, re.M)[1]
    share = re.search(r"which is ([\d.]+ %) less|its space to ([\d.]+ %)", proof)
    return (share[1] or share[2]) if share else "proven"


def growth(profiles, repeat):
    """Depth, ranks and number of schedules, one at a time."""
    deepest = max(profiles)
    cases = [(layers, 64, "1f1b") for layers in profiles]
    cases += [(deepest, ranks, "1f1b") for ranks in (8, 16, 32, 256, 1024)]
    cases += [(deepest, 64, "gpipe,1f1b,interleaved-1f1b"), (deepest, 64, None)]
    for layers, ranks, schedules in cases:
        options = ["--ranks", ranks, "--memory", "640GB"]
        options += ["--schedule", schedules] if schedules else []
        found = plan(profiles[layers], *options, repeat=repeat)
        yield {"layers": layers, "units": found["units"], "ranks": ranks,
               "schedules": schedules or "all", "layouts": found["layouts"],
               "simulated": found["simulated"], "complete": found["complete"],
               "seconds": f"{found['seconds']:.2f}", "above the bound": f"{found['gap']} %",
               "could be shorter by at most": found["open"]}


def published():
    """Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022),
    table 3: 175B, tensor parallel 8, pipeline 8, interleaved with 3 stages per rank, microbatches
    of one sample."""
    cuts = ",".join(f"blocks.{layer}:beginning" for layer in range(4, 96, 4))
    return ["--tensor-parallel", 8, "--schedule", "interleaved-1f1b", "--stages-per-rank", 3,
            "--data-parallel", 16, "--microbatches", 96, "--split", cuts,
            "--optimizer-state", "replicated"]


def gpt3(path, repeat):
    """Full searches on 1024 H100."""
    cases = {"our plan": [],
             "replicated optimizer state": ["--optimizer-state", "replicated"],
             "without tensor groups": ["--tensor-parallel", 1],
             "groups of 8, interleaved 1F1B only": ["--tensor-parallel", 8, "--schedule",
                                                    "interleaved-1f1b"],
             "the published layout": published()}
    for name, options in cases.items():
        found = plan(path, "--cluster", CLUSTERS / "h100_128_nodes.yaml", *options, repeat=repeat)
        yield {"GPT-3 175B on 1024 H100": name, "plan": found["plan"], "step": found["step"],
               "above the bound": f"{found['gap']} %",
               "could be shorter by at most": found["open"], "binds": found["binds"],
               "seconds": f"{found['seconds']:.1f}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="times are medians of so many runs")
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 24, 48, 96])
    parser.add_argument("--gpt3", action="store_true", help="only GPT-3 on 1024 devices")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores of {processor()}, medians of {options.repeat} runs, "
          f"{date.today()}\n")
    with tempfile.TemporaryDirectory() as folder:
        profiles = {}
        for layers in [] if options.gpt3 else options.layers:
            profiles[layers], seconds = profile(Path(folder), layers)
            print(f"estimated {layers} layers in {seconds:.1f} s", file=sys.stderr)
        if not options.gpt3:
            print(table(list(growth(profiles, options.repeat))) + "\n")
        whole, seconds = profile(Path(folder), GPT3["layers"], parts=(2, 4, 8))
        print(f"estimated groups of 2, 4 and 8 in {seconds:.1f} s", file=sys.stderr)
        print(table(list(gpt3(whole, options.repeat))))


if __name__ == "__main__":
    main()
