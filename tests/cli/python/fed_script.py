"""A rank's script of test_launched.py:

    fed_script.py PLAN STEPS [MISTAKE RANK [SURVIVE]]

Trains on its replica's samples of the plan's data, in their order, and prints what came of it as
JSON. The rank makes the mistake after the first step; with the mistake `is struck` it survives
that workers are killed at any time during odd steps.
"""

import hashlib
import itertools
import json
import os
import random
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import yaml
from safetensors.torch import load_file, save

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


def call_all(pipe, plan, steps, around=lambda call: call()):
    """All that a script may ask for; numbers, and digests of tensors."""
    told = []
    for step, batch in enumerate(batches(plan, pipe, steps), 1):
        inputs = {name: value for name, value in batch.items() if name != "target"}
        fewer = {name: value.flip(0)[:-1] for name, value in batch.items()}
        told += [told_by(around(call)) for call in (
            partial(pipe.evaluate, **fewer),
            partial(pipe.step, **batch, learning_rate=0.01 / step),
            partial(pipe.forward, **inputs),
            pipe.state_dict,
            partial(pipe.save, Path(plan).parent / "saved"))]
    return told


def told_by(result):
    if isinstance(result, dict):
        return hashlib.sha256(save(result)).hexdigest()
    return result.name if isinstance(result, Path) else result


def strike(pipe, steps):
    """For `call_all`: at any time during a call of every other step the worker of one rank, of each
    in turn, is killed."""
    draw, number = random.Random(24), itertools.count()
    at = {5 * step + draw.randrange(5): draw.uniform(0, 0.02) for step in range(0, steps, 2)}
    own = sorted(at)[pipe.rank::pipe.ranks]

    def kill():
        server = pipe._server._process.pid
        for worker in Path(f"/proc/{server}/task/{server}/children").read_text().split():
            os.kill(int(worker), signal.SIGKILL)

    def around(call):
        call_number = next(number)
        if call_number not in own:
            return call()
        killer = threading.Timer(at[call_number], kill)
        killer.start()
        told = call()
        killer.join()
        return told

    return around


def main(plan, steps, mistake=None, rank="-1", survive="off"):
    if mistake == "is struck":
        with penstock.Pipeline(plan, survive="local") as pipe:
            told = call_all(pipe, plan, int(steps), strike(pipe, int(steps)))
            pipe.evaluate(**next(batches(plan, pipe, 1)))  # a worker killed late is replaced
            print(json.dumps({"rank": pipe.rank, "told": told, "restarts": pipe.restarts}))
        return
    with penstock.Pipeline(plan, survive=survive) as pipe:
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
