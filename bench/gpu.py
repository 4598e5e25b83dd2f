#!/usr/bin/env python3
"""One GPU: GPT-2 small's step under Penstock, with and without CUDA graphs, beside PyTorch's eager step; and what a
profile predicts beside what is measured. Prints Markdown, and puts it into a page with --write.

    .venv/bin/python bench/gpu.py [--write docs/gpu.md] [--steps N] [--device cpu --small]

Needs build/penstock and .venv. All train from random weights on the same tokens with AdamW in float32. --device cpu
--small only shows that the bench itself works.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import torch
import yaml

from reporting import PENSTOCK, ROOT, export, run, table

sys.path.insert(0, str(ROOT / "configs" / "models"))

import gpt2  # noqa: E402: found through the line above

GPT2_SMALL = {"layers": 12, "hidden": 768, "heads": 12, "sequence": 1024, "vocabulary": 50257}
TINY = {"layers": 2, "hidden": 32, "heads": 2, "sequence": 32, "vocabulary": 128}
BATCH = 16  # less, and a profile measures no CUDA graphs: that would take longer than a step
ADAMW = {"kind": "adamw", "learning_rate": 1e-4, "weight_decay": 0.01}
BEGIN, END = "<!-- measured by bench/gpu.py: begin -->", "<!-- end -->"


def write_job(folder, sizes, steps):
    tokens = np.random.default_rng(0).integers(sizes["vocabulary"], size=4 * BATCH * sizes["sequence"] + 1)
    tokens.astype(np.uint16).tofile(folder / "tokens.bin")
    job = {"model": str(folder / "gpt2.pt2"), "loss": "cross_entropy", "optimizer": ADAMW,
           "data": str(folder / "tokens.bin"), "sequence": sizes["sequence"], "global_batch": BATCH, "steps": steps}
    (folder / "job.yaml").write_text(yaml.safe_dump({"penstock": "job", **job}))
    return job


def penstock_step(folder, job, microbatch, *flags):
    """What `execute` reports of one stage."""
    plan = folder / "plan.yaml"
    plan.write_text(yaml.safe_dump({
        "penstock": "plan", "version": 1, "job": job, "schedule": "1f1b", "microbatches": BATCH // microbatch,
        "microbatch": microbatch, "stages": [{"rank": 0, "begin": ""}]}))
    return json.loads(run(PENSTOCK, "execute", plan, "--json", *flags))


def eager_step_s(folder, device, sizes, microbatch, steps):
    """The median step of the module, as one writes it by hand."""
    module = gpt2.model(**sizes).to(device)
    optimizer = torch.optim.AdamW(module.parameters(), lr=ADAMW["learning_rate"], weight_decay=ADAMW["weight_decay"])
    tokens = torch.from_numpy(np.fromfile(folder / "tokens.bin", dtype=np.uint16).astype(np.int64))
    length = sizes["sequence"]
    seconds = []
    for step in range(steps):
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
    return statistics.median(seconds[3:])


def synchronise(device):
    if device == "cuda":
        torch.cuda.synchronize()


def milliseconds(seconds):
    return f"{1e3 * seconds:.2f} ms"


def graph_settings(options):
    return ["off", "auto"] if options.device == "cuda" else ["none"]


def graph_flags(graphs):
    return [] if graphs == "none" else ["--cuda-graphs", graphs]


def speed(folder, job, options, sizes):
    for microbatch in (1, 2, 4, 8):
        flags = ["--device", options.device, "--steps", options.steps]
        eager = eager_step_s(folder, options.device, sizes, microbatch, options.steps)
        torch.cuda.empty_cache()  # others need it now
        row = {"microbatch": microbatch, "PyTorch eager": milliseconds(eager)}
        for graphs in graph_settings(options):
            done = penstock_step(folder, job, microbatch, *flags, *graph_flags(graphs))
            step = done["measured_step_s"]
            used = " (used)" if any(rank["on"] for rank in done.get("cuda_graphs", [])) else ""
            row |= {f"Penstock, graphs {graphs}": milliseconds(step) + used,
                    f"of eager, graphs {graphs}": f"{step / eager:.3f}"}
        yield row


def predicted(folder, options):
    """By profile and execute: a step of one stage with the smallest microbatch and with the plan's, and its memory."""
    profile, plan = folder / "profile.json", folder / "planned.yaml"
    run(PENSTOCK, "profile", folder / "job.yaml", "--device", options.device, "-o", profile)
    for microbatches in (BATCH, "auto"):
        run(PENSTOCK, "plan", profile, "--ranks", 1, "--microbatches", microbatches, "-o", plan)
        for graphs in graph_settings(options):
            flags = ["--device", options.device, "--steps", options.steps, "--json", *graph_flags(graphs)]
            done = json.loads(run(PENSTOCK, "execute", plan, *flags))
            yield {"microbatch": yaml.safe_load(plan.read_text())["microbatch"], "graphs": graphs,
                   **compared("step", done["predicted_step_s"], done["measured_step_s"], milliseconds),
                   **compared("memory", done["predicted_peak_memory_bytes"][0], done["peak_memory_bytes"][0],
                              lambda bytes_: f"{bytes_ / 1e6:.0f} MB")}


def compared(what, said, found, show):
    return {f"{what} predicted": show(said), f"{what} measured": show(found),
            f"{what} off by": f"{100 * (said / found - 1):+.1f} %"}


def machine(device):
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU: only to show that the bench works"
    return f"{name}, torch {torch.__version__}, {date.today()}"


def write(page, text):
    content = page.read_text()
    begin, end = content.index(BEGIN) + len(BEGIN), content.index(END)
    page.write_text(f"{content[:begin]}\n{text}\n{content[end:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="a tiny model")
    parser.add_argument("--steps", type=int, default=23, help="of which the first three do not count")
    parser.add_argument("--write", type=Path, help="the page whose marked part is replaced")
    options = parser.parse_args()
    sizes = TINY if options.small else GPT2_SMALL
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export("gpt2", folder / "gpt2.pt2", **sizes)
        job = write_job(folder, sizes, options.steps)
        text = "\n\n".join([machine(options.device) + f", medians of {options.steps - 3} steps of {BATCH} samples",
                            table(list(speed(folder, job, options, sizes))), table(list(predicted(folder, options)))])
    print(text)
    if options.write:
        write(options.write, text)


if __name__ == "__main__":
    sys.exit(main())
