"""Runs with exact faults that survive them, compared with undisturbed ones."""

import json
import os
import re
import subprocess
from pathlib import Path

import yaml

from pipelines import (PENSTOCK, clean_environment, device_flags, execute_json, load_file,
                       torch)
from running import until


def fault_list(folder, faults):
    """The environment of a run that is to have them."""
    file = folder / "faults"
    file.write_text("".join(f"{fault}\n" for fault in faults))
    return {"PENSTOCK_FAULTS": str(file)}


def until_they_happened(folder):
    def all_happened():
        return all(line.startswith("#") for line in (folder / "faults").read_text().splitlines())

    until(all_happened, "no fault happens")


def all_hang(plan, step):
    """Faults of all ranks at the end of a step: each has the states before it and before the last,
    for all took part in the update, and none has begun another."""
    replicas, parts = (yaml.safe_load(plan.read_text()).get(key, 1)
                       for key in ("data_parallel", "tensor_parallel"))
    ranks = len(actions(plan)) * replicas * parts
    return [f"{rank} {step} end spin" for rank in range(ranks)]


def survive(plan, *options, faults=(), how="local", **variables):
    """A run with faults, and those that happened."""
    listed = fault_list(Path(plan).parent, faults)
    done = subprocess.run([str(PENSTOCK), "execute", str(plan), "--survive", how, "--json",
                           *map(str, options), *device_flags(plan, options)],
                          capture_output=True, text=True, timeout=900,
                          env={**clean_environment(), **listed, **variables})
    lines = (Path(plan).parent / "faults").read_text().splitlines()
    return done, [line[1:] for line in lines if line.startswith("#")]


def went_on(errors):
    """The steps that a run went on with."""
    return [int(step) for step in re.findall(r"The run goes on with step (\d+)\.", errors)]


def tensors_of(checkpoint):
    return {key: value for file in sorted(checkpoint.glob("stage-*.safetensors"))
            for key, value in load_file(file).items()}


def assert_undisturbed(plan, faults, *options, **variables):
    """Each fault is in a step of its own, in order. Returns what the run said."""
    folder = Path(plan).parent
    whole = execute_json(plan, "--save", folder / "whole", *options)
    done, happened = survive(plan, "--save", folder / "saved", *options, faults=faults,
                             **variables)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for key in ("losses", "microbatch_losses", "gradient_norms", "validation"):
        assert found.get(key) == whole.get(key)
    (last,) = (path.name for path in (folder / "whole").iterdir())
    saved, expected = tensors_of(folder / "saved" / last), tensors_of(folder / "whole" / last)
    assert saved.keys() == expected.keys()
    assert all(torch.equal(value, expected[key]) for key, value in saved.items())
    steps = [int(fault.split()[1]) for fault in faults]
    assert len(happened) == len(faults) == len(went_on(done.stderr)), (happened, done.stderr)
    for step, again in zip(steps, went_on(done.stderr), strict=True):
        assert step - 1 <= again <= step
    return done.stderr


def actions(plan):
    """Each rank's program as workers run it, without replicas: receives wait until they are needed,
    and where the exported one sums gradients, there is the update."""
    file = Path(plan).with_name("program.csv")
    subprocess.run([PENSTOCK, "export", plan, "--format", "torch-csv", "--lowered", "2.11", "-o",
                    file], capture_output=True, check=True)
    return [delayed([cell.replace("REDUCE_GRAD", "OPT") for cell in line.split(",") if cell])
            for line in file.read_text().splitlines()]


def delayed(program):
    receives, later = {}, []
    for action in program:
        stage, kind, microbatch = re.fullmatch(r"(\d+)([A-Z_]+)(\d*)", action).groups()
        if kind.startswith("RECV_"):
            receives[stage, kind[-1], microbatch] = action
            continue
        needed = receives.pop((stage, kind.replace("I", "B"), microbatch), None)
        later += [needed, action] if needed else [action]
    assert not receives
    return later


def positions(plan):
    """The number of actions of each rank's program."""
    return list(map(len, actions(plan)))


def slots_of(process):
    """The slots of each rank in turn, as files; the third is empty unless one is being saved."""
    folder = Path(f"/proc/{process.pid}/fd")
    found = sorted(int(link.name) for link in folder.iterdir()
                   if "penstock-snapshot" in os.readlink(link))
    return [[folder / str(slot) for slot in slots]
            for slots in zip(found[::3], found[1::3], found[2::3], strict=True)]


def flip(path):
    with path.open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        byte = file.read(1)
        file.seek(-100, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
