"""A rank's script of test_launched.py:

    fed_script.py PLAN STEPS [MISTAKE RANK]

Trains on its replica's samples of the plan's data, in their order, and prints what came of it as
JSON. The rank makes the mistake after the first step.
"""

import json
import os
import signal
import sys
from pathlib import Path

import yaml
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))

import penstock


def batches(plan, pipe, steps):
    job = yaml.safe_load(Path(plan).read_text())["job"]
    data = load_file(Path(plan).parent / job["data"])
    size, samples = job["global_batch"], len(data["target"])
    for step in range(steps):
        first = step * size + pipe.replica * pipe.batch_size
        at = [(first + i) % samples for i in range(pipe.batch_size)]
        yield {name: value[at] for name, value in data.items()}


def train(pipe, plan, steps, mistake):
    losses = []
    for step, batch in enumerate(batches(plan, pipe, steps)):
        wrong = mistake if step == 1 else None
        if wrong == "ends":
            break
        if wrong == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if wrong == "raises":
            raise KeyError("a mistake of the script")
        if wrong in batch:
            batch[wrong] = batch[wrong].flip(0)
        if wrong == "evaluates":
            pipe.evaluate(**batch)
        rate = {"rate": 0.1}.get(wrong, 0.05)
        if mistake == "own inputs":
            batch = {name: batch[name] for name in pipe.inputs}
        losses.append(pipe.step(**batch, learning_rate=rate))
    return losses


def main(plan, steps, mistake=None, rank="-1"):
    with penstock.Pipeline(plan) as pipe:
        made = mistake if rank in (str(pipe.rank), "all") else None
        facts = {"rank": pipe.rank, "replica": pipe.replica, "inputs": pipe.inputs}
        try:
            losses = train(pipe, plan, int(steps), made)
        except (ValueError, RuntimeError) as error:
            print(json.dumps({**facts, "error": type(error).__name__, "message": str(error)}))
            return
        state = pipe.state_dict() if made != "ends" and mistake != "ends" else None
        print(json.dumps({**facts, "losses": losses, "state": state and sorted(state)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
