#!/usr/bin/env python3
"""A step from Python beside the same step of `penstock execute`, which read the same samples: what
the requests and the copy of the batch cost. Runs of both take turns. Prints Markdown; needs
build/penstock and .venv, and a machine with nothing else to do.

    .venv/bin/python bench/python.py [--repeat N] [--steps N]
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import torch
from reporting import PENSTOCK, ROOT, processor, revision, run, table, versions
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(ROOT / "python"))

import penstock

WARM_UP = 5
MODELS = {  # 64 KiB and 19 MB of inputs a step
    "vectors": (torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(),
                                    torch.nn.Linear(512, 10)), (512,)),
    "pictures": (torch.nn.Sequential(torch.nn.AvgPool2d(16), torch.nn.Flatten(),
                                     torch.nn.Linear(588, 512), torch.nn.ReLU(),
                                     torch.nn.Linear(512, 10)), (3, 224, 224)),
}
BATCH, BATCHES = 32, 4


def prepare(folder, model, shape):
    """A plan over two ranks, whose job has data of its own."""
    folder.mkdir()
    samples = BATCH * BATCHES
    save_file({"input": torch.randn(samples, *shape),
               "target": torch.arange(samples) % 10}, folder / "data.safetensors")
    file = penstock.export(model, (torch.randn(4, *shape),), folder / "m.pt2")
    job = penstock.write_job(folder / "job.yaml", model=file, loss="cross_entropy",
                             global_batch=BATCH, data=folder / "data.safetensors",
                             optimizer={"kind": "sgd", "learning_rate": 0.01})
    profile = penstock.profile(job, folder / "profile.json", quick=True)
    return penstock.plan(profile, folder / "plan.yaml", ranks=2, data_parallel=1,
                         schedule="1f1b", microbatches=8)


def executed(plan, steps):
    """Losses and seconds of each step."""
    record = plan.with_name("record.jsonl")
    record.unlink(missing_ok=True)
    result = json.loads(run(PENSTOCK, "execute", plan, "--steps", steps, "--json", "--metrics",
                            record))
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return result["losses"], [line["step_s"] for line in lines]


def fed(plan, steps):
    """The same from Python: seconds of each call, and of the copy of its batch alone."""
    data = load_file(plan.with_name("data.safetensors"))
    losses, calls, copies = [], [], []
    with penstock.Pipeline(plan) as pipe:
        for step in range(steps):
            at = step % BATCHES * BATCH
            x, target = (data[name][at:at + BATCH] for name in ("input", "target"))
            begin = time.perf_counter()
            losses.append(pipe.step(x, target=target))
            calls.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            pipe._batches.put("step", (x,), {}, target, with_target=True)
            copies.append(time.perf_counter() - begin)
    return losses, calls, copies


def median_ms(seconds):
    return 1e3 * statistics.median(seconds[WARM_UP:])


def measure(name, plan, repeat, steps):
    runs = {"execute": [], "call": [], "copy": []}
    for _ in range(repeat):
        losses, step_s = executed(plan, steps)
        same, calls, copies = fed(plan, steps)
        if losses != same:
            sys.exit(f"{name}: losses from Python are not those of execute")
        for key, seconds in zip(runs, (step_s, calls, copies), strict=True):
            runs[key].append(median_ms(seconds))
    best = {key: min(medians) for key, medians in runs.items()}
    beyond = best["call"] - best["execute"] - best["copy"]
    return {"batch": name, "execute, ms": f"{best['execute']:.2f}",
            "from Python, ms": f"{best['call']:.2f}", "copy, ms": f"{best['copy']:.2f}",
            "beyond execute and the copy, ms": f"{beyond:.2f}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, prepare(Path(folder) / name, *model), options.repeat, options.steps)
                for name, model in MODELS.items()]
    print(f"{date.today()}, {processor()}, {versions()}, commit {revision()}; medians of "
          f"{options.steps} steps, the best of {options.repeat} runs\n")
    print(table(rows))


if __name__ == "__main__":
    main()
