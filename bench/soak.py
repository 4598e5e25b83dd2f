#!/usr/bin/env python3
"""Runs that lose ranks again and again: N faults drawn by a seed, exact ones by a list of faults
(PENSTOCK_FAULTS) and signals from outside at any moment, over models and schedules that keep state
of every kind. Prints Markdown, and puts it into a page with --write.

    .venv/bin/python bench/soak.py [--faults N] [--seed S] [--write docs/survival.md]

Needs build/penstock and .venv. After each fault: at most one completed step was done again, and
there are as many processes and descriptors as before it. After each run, of up to 40 faults: every
loss and the SHA-256 of all weights are those of the run without faults, and every fault happened.
Ends with 1 where something else is found, after the run that it is found in.
"""

import argparse
import collections
import hashlib
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import torch
import yaml
from safetensors.torch import save_file

from reporting import PENSTOCK, export, processor, put, revision, run, table, versions

ADAMW = {"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.1, "clip_norm": 1.0}
MOMENTUM = {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9}
TEXT = {"layers": 3, "vocabulary": 64, "sequence": 16, "heads": 2}
# Model, its settings, the job, the plan; each on three ranks.
CASES = {
    "dropout and clipping under 1F1B": (
        "transformer", TEXT | {"dim": 32, "feedforward": 64, "dropout": 0.1},
        {"optimizer": ADAMW},
        {"schedule": "1f1b", "begins": ["", "layers.1", "layers.2"]}),
    "tied weights, bf16 and clipping under ZB-H1": (
        "gpt2", TEXT | {"hidden": 32},
        {"optimizer": ADAMW, "precision": "bf16"},
        {"schedule": "zb-h1", "begins": ["", "transformer.h.1", "transformer.h.2"],
         "shared_parameters": {"transformer.wte.weight": "transmit"}}),
    "batch norm under 1F1B": (
        "resnet", {"blocks": 1, "width": 4, "side": 8, "classes": 5}, {"optimizer": MOMENTUM},
        {"schedule": "1f1b", "begins": ["", "groups.1", "groups.2"]}),
    "three replicas": (
        "gpt2", TEXT | {"hidden": 32}, {"optimizer": ADAMW},
        {"schedule": "gpipe", "begins": [""], "data_parallel": 3}),
}
RANKS, MICROBATCHES, MICROBATCH = 3, 4, 2
GAP = 3             # steps from one exact fault to the next: each is in steps of its own
FAULTS_A_RUN = 40
STEPS = GAP * (FAULTS_A_RUN + 2)
KINDS = {"kill": 6, "throw": 3, "stop": 2, "spin": 1}  # how often each is drawn
SIGNALS = {signal.SIGKILL: 3, signal.SIGSTOP: 1}
OUTSIDE = 4         # one run of so many has its faults from outside
MAX_KIB = 132       # a heap grows in such pieces; a leak of 4 KiB a fault exceeds it
STEP = re.compile(r"step +(\d+)/")
GOES_ON = re.compile(r"The run goes on with step (\d+)\.")


class Case:
    """A plan in a folder of its own, and what it gives without faults."""

    def __init__(self, name, folder, options):
        model, settings, job, plan = CASES[name]
        self.name, self.folder, self.options, self.runs = name, folder, options, 0
        folder.mkdir()
        dtype = ["--dtype", "bfloat16"] if "precision" in job else []
        export(model, folder / "model.pt2", *dtype, **settings)
        replicas = plan.get("data_parallel", 1)
        job = {"model": str(folder / "model.pt2"), "loss": "cross_entropy", "steps": STEPS,
               "seed": options.seed, "global_batch": MICROBATCHES * MICROBATCH * replicas, **job,
               **self.data(model, settings)}
        stages = [{"rank": rank, "begin": begin} for rank, begin in enumerate(plan["begins"])]
        plan = {"penstock": "plan", "version": 1, "job": job, "microbatches": MICROBATCHES,
                "microbatch": MICROBATCH, "stages": stages,
                **{key: value for key, value in plan.items() if key != "begins"}}
        self.plan = folder / "plan.yaml"
        self.plan.write_text(yaml.safe_dump(plan, sort_keys=False))
        program = folder / "program.csv"
        run(PENSTOCK, "export", self.plan, "--format", "torch-csv", "--lowered", "2.11", "-o",
            program)
        rows = [len([cell for cell in line.split(",") if cell])  # torch's REDUCE_GRAD is our OPT
                for line in program.read_text().splitlines()]
        self.actions = rows * replicas
        said = run(PENSTOCK, "execute", self.plan, "--json", "--save", folder / "clean")
        self.expected = self.figures(json.loads(said), folder / "clean")

    def data(self, model, settings):
        generator = torch.Generator().manual_seed(1)
        if model == "resnet":
            side, file = settings["side"], self.folder / "data.safetensors"
            save_file({"image": torch.randn(64, 3, side, side, generator=generator),
                       "target": torch.randint(settings["classes"], (64,), generator=generator)},
                      file)
            return {"data": str(file)}
        file = self.folder / "text.txt"
        letters = torch.randint(settings["vocabulary"], (4096,), generator=generator)
        file.write_bytes(bytes(letters.tolist()))
        return {"data": str(file), "sequence": settings["sequence"]}

    @staticmethod
    def figures(said, saved):
        """All that a fault must not change."""
        weights = {str(file.relative_to(saved)): hashlib.sha256(file.read_bytes()).hexdigest()
                   for file in sorted(saved.rglob("*.safetensors"))}
        return said["losses"], said["microbatch_losses"], said.get("gradient_norms"), weights

    def draw(self, random, number):
        """One exact fault of a run."""
        rank = random.randrange(RANKS)
        kind = random.choices(list(KINDS), KINDS.values())[0]
        positions = [str(place) for place in range(self.actions[rank])]
        if kind != "throw":
            positions += [f"{place}.5" for place in positions]
        positions += ["end", "copy"] * (len(positions) // 8)
        return rank, GAP * (number + 1), random.choice(positions), kind


class Survivor:
    """A run with faults, as it is seen from outside."""

    def __init__(self, case, faults):
        self.case = case
        case.runs += 1
        self.saved = case.folder / f"saved-{case.runs}"
        self.list = case.folder / f"faults-{case.runs}"
        self.list.write_text("".join(" ".join(map(str, fault)) + "\n" for fault in faults))
        self.said = case.folder / f"said-{case.runs}.json"
        self.process = subprocess.Popen(
            [PENSTOCK, "execute", case.plan, "--survive", "local", "--json", "--save", self.saved],
            stdout=self.said.open("w"), stderr=subprocess.PIPE, text=True,
            # Of several arenas one comes when threads happen to allocate at once.
            env=os.environ | {"PENSTOCK_FAULTS": str(self.list), "MALLOC_ARENA_MAX": "1",
                              "PENSTOCK_HANG_AFTER": case.options.hang_after})
        self.words, self.step, self.stepped = [], 0, time.monotonic()

    def until_step(self, step):
        """The run has printed it: None, or the step that it goes on with, where it tells that
        before; False at its end."""
        for line in self.process.stderr:
            self.words.append(line)
            if found := STEP.match(line):
                self.step, before = int(found[1]), self.stepped
                self.stepped = time.monotonic()
                self.took = self.stepped - before
                if self.step >= step:
                    return None
            if found := GOES_ON.search(line):
                return int(found[1])
        return False

    def state(self):
        """Its processes, descriptors, and KiB of memory."""
        folder = Path(f"/proc/{self.process.pid}")
        memory = re.search(r"RssAnon:\s*(\d+)", (folder / "status").read_text())
        return len(self.workers()), len(list((folder / "fd").iterdir())), int(memory[1])

    def workers(self):
        pid = self.process.pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Soak:
    def __init__(self, options):
        self.options, self.random = options, random.Random(options.seed)
        self.recoveries = collections.defaultdict(list)  # by kind: (steps redone, seconds)
        self.states, self.done, self.problems = [], 0, []

    def run(self, case, outside, count):
        """One run with that many faults, all of them exact; or all from outside, and as many as its
        steps allow."""
        faults = [] if outside else [case.draw(self.random, number) for number in range(count)]
        running = Survivor(case, faults)
        try:
            kinds = self.outside(running, count) if outside else (kind for *_, kind in faults)
            for kind in kinds:
                self.recover(running, kind)
            self.check(running, faults)
        except AssertionError as problem:
            failures = [line for line in running.words if not STEP.match(line)]
            self.problems.append(f"{case.name}, {running.list}: {problem}\n{''.join(failures)}")
        finally:
            running.end()

    def outside(self, running, count):
        """Signals to any rank at any moment of a step, once the run has made two more."""
        for _ in range(count):
            if running.step > STEPS - 2 * GAP:
                return
            assert running.until_step(running.step + 2) is None, "something else failed"
            sent = self.random.choices(list(SIGNALS), SIGNALS.values())[0]
            time.sleep(self.random.random() * min(2 * running.took, 0.1))
            os.kill(self.random.choice(running.workers()), sent)
            yield f"{sent.name} from outside"

    def recover(self, running, kind):
        went_on = running.until_step(STEPS + 1)
        assert went_on, f"the {kind} is not told"
        last, begun = running.step, running.stepped
        assert last <= went_on, f"{last + 1 - went_on} completed steps are done again"
        assert running.until_step(last + 1) is None, "it failed again"
        self.recoveries[kind].append((last + 1 - went_on, running.stepped - begun))
        self.states.append((running, running.state()))
        self.done += 1
        self.show(running.case)

    def check(self, running, faults):
        assert running.until_step(STEPS + 1) is False, "more failures than faults"
        status = running.process.wait()
        assert status == 0, f"ended with {status}"
        left = [line for line in running.list.read_text().splitlines() if line[0] != "#"]
        assert not left, f"did not happen: {left}"
        found = running.case.figures(json.loads(running.said.read_text()), running.saved)
        names = "losses", "losses of microbatches", "norms of gradients", "weights"
        for name, value, expected in zip(names, found, running.case.expected, strict=True):
            assert value == expected, f"{name} differ from those without faults"

    def growth(self):
        """Of each run, from its first fault to its last: processes, descriptors, KiB."""
        for _, states in itertools.groupby(self.states, key=lambda state: state[0]):
            seen = [state for _, state in states]
            yield [after - before for before, after in zip(seen[0], seen[-1], strict=True)]

    def judge(self):
        for processes, descriptors, memory in self.growth():
            if processes or descriptors or memory > MAX_KIB:
                self.problems.append(f"a run grew by {processes} processes, {descriptors} "
                                     f"descriptors and {memory} KiB")

    def show(self, case):
        if sys.stderr.isatty():
            print(f"\r\033[K{self.done}/{self.options.faults} faults, {case.name}",
                  end="" if self.done < self.options.faults else "\n", file=sys.stderr, flush=True)

    def text(self):
        rows = []
        for kind in sorted(self.recoveries):
            redone, seconds = zip(*self.recoveries[kind], strict=True)
            rows.append({"fault": kind, "times": len(seconds),
                         "steps done again": sum(redone), "at most": max(redone),
                         "recovery, median": f"{statistics.median(seconds):.2f} s",
                         "worst": f"{max(seconds):.2f} s"})
        worst = [max(values) for values in zip(*self.growth(), strict=True)] or [0, 0, 0]
        return (f"{date.today()}, {revision()}, {processor()}, {os.cpu_count()} cores, "
                f"{versions()}; seed {self.options.seed}, {self.done} faults, {RANKS} ranks: "
                f"{', '.join(CASES)}. A recovery is from the last step before a fault to the next "
                f"new one; that of a rank that spins waits {self.options.hang_after} "
                f"(PENSTOCK_HANG_AFTER; 10 s by default).\n\n{table(rows) if rows else 'None.'}\n\n"
                f"Growth of `penstock` in a run of {FAULTS_A_RUN} faults, at most: "
                f"{worst[0]} processes, {worst[1]} descriptors, {worst[2]} KiB of memory. "
                f"{len(self.problems)} problems.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--faults", type=int, default=1200, help="how many (default: 1200)")
    parser.add_argument("--seed", type=int, default=0, help="that they are drawn by (default: 0)")
    parser.add_argument("--hang-after", default="5s", metavar="TIME",
                        help="after which a rank that spins is replaced; more than an action takes "
                             "in a process that has just begun, however busy the machine "
                             "(default: 5s)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        cases = [Case(case, Path(name) / str(i), options) for i, case in enumerate(CASES)]
        soak = Soak(options)
        share = min(FAULTS_A_RUN, -(-options.faults // len(cases)))
        for number in itertools.count():
            left = options.faults - soak.done
            if left == 0 or soak.problems:
                break
            outside = (number + number // len(cases)) % OUTSIDE == OUTSIDE - 1
            soak.run(cases[number % len(cases)], outside, min(share, left))
        soak.judge()
    print(soak.text())
    for problem in soak.problems:
        print(problem, file=sys.stderr)
    if options.write and not soak.problems:
        put(options.write, "soak.py", soak.text())
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
