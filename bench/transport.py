#!/usr/bin/env python3
"""Ranks of one machine that exchange tensors through memory, beside the same over Gloo's sockets:
how long a message takes once both sides are ready, and how long and how steady steps are. Runs of
both take turns. Prints Markdown; needs build/penstock and .venv, and a machine with nothing else to
do.

    .venv/bin/python bench/transport.py [--repeat N] [--steps N]
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
from datetime import date
from pathlib import Path

from reporting import PENSTOCK, ROOT, export, run, table

MODELS = {  # messages of 17 KiB, of 128 and 256 KiB
    "ViT": ("vit", {}),
    "transformer": ("transformer", {"dim": 256, "feedforward": 256, "vocabulary": 256,
                                    "sequence": 64, "batch_first": "true", "causal": "true",
                                    "positions": "true", "dropout": 0}),
}
SCHEDULES = ["1f1b", "interleaved-1f1b"]
MICROBATCHES = 8
TRANSPORTS = {"gloo": "sockets", "auto": "memory"}
ACTION = re.compile(r"(\d+)(SEND|RECV)_([FB])(\d+)")


def prepare(folder):
    """A plan for each model and schedule: name -> (plan, bytes of a message)."""
    run(sys.executable, ROOT / "tools" / "make_data.py", "-o", folder / "data")
    plans = {}
    for name, (model, settings) in MODELS.items():
        export(model, folder / f"{model}.pt2", **settings)
        job, profile = folder / f"{model}.yaml", folder / f"{model}.json"
        text = (ROOT / "configs" / "jobs" / f"{model}.yaml").read_text()
        text = text.replace(f"../../build/models/{model}.pt2", str(folder / f"{model}.pt2"))
        job.write_text(text.replace("../../build/data", str(folder / "data")))
        run(PENSTOCK, "profile", job, "--quick", "-o", profile)
        for schedule in SCHEDULES:
            plan = folder / f"{model}-{schedule}.yaml"
            run(PENSTOCK, "plan", profile, "--ranks", 2, "--data-parallel", 1, "--schedule",
                schedule, "--microbatches", MICROBATCHES, "-o", plan)
            plans[name, schedule] = plan
    return plans


def delays(trace):
    """Seconds from when both sides of a message were ready to its arrival, and its bytes."""
    events = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if match := ACTION.fullmatch(event.get("name", "")):
            stage, what, direction, microbatch = match.groups()
            step = 1 if direction == "F" else -1
            edge = int(stage) if what == "SEND" else int(stage) - step  # the sender's stage
            events.setdefault((edge, direction, microbatch), {})[what] = event
    for both in events.values():
        send, receive = both["SEND"], both["RECV"]
        ready = max(send["ts"], receive["ts"])
        yield (receive["ts"] + receive["dur"] - ready) * 1e-6, receive["args"]["bytes"]


def measure(plan, transport, steps, folder):
    trace = folder / "trace.json"
    said = json.loads(run(PENSTOCK, "execute", plan, "--steps", steps, "--transport", transport,
                          "--trace", trace, "--json"))
    return said["step_s"][5:], list(delays(trace))


def quantile(values, share):
    return statistics.quantiles(values, n=100, method="inclusive")[round(100 * share) - 1]


def row(name, schedule, transport, runs):
    steps = [step for step_s, _ in runs for step in step_s]
    messages = [message for _, sent in runs for message in sent]
    times = [seconds for seconds, _ in messages]
    return {"model": name, "schedule": schedule, "through": TRANSPORTS[transport],
            "messages": f"{len(messages)} of {max(size for _, size in messages) / 1024:.0f} KiB",
            "median": f"{1e6 * quantile(times, .5):.0f} us",
            "99 of 100": f"{1e6 * quantile(times, .99):.0f} us",
            "step": f"{1e3 * quantile(steps, .5):.1f} ms",
            "10th to 90th": " to ".join(f"{1e3 * quantile(steps, at):.1f}" for at in (.1, .9))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=8, help="runs of each (default: 8)")
    parser.add_argument("--steps", type=int, default=100, help="steps of a run (default: 100)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plans = prepare(folder)
        runs = {}
        for _ in range(options.repeat):
            for key, plan in plans.items():
                for transport in TRANSPORTS:
                    runs.setdefault((*key, transport), []).append(
                        measure(plan, transport, options.steps, folder))
        print(f"{date.today()}, two ranks, {options.repeat} runs of {options.steps} steps; a "
              "message from when both sides are ready.\n")
        print(table([row(*key, measured) for key, measured in runs.items()]))


if __name__ == "__main__":
    main()
