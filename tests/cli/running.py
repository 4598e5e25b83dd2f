"""Runs of penstock that tests look at while they go on."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from pipelines import (PENSTOCK, clean_environment, device_flags, model_path, torch, vectors,
                       write_plan)


def end_group(process):
    """Penstock and its workers, whatever is left of them."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def endless_plan(folder, **more):
    """Three ranks that do not end by themselves."""
    return write_plan(folder, model_path("pippy"), vectors(folder, "x", 512, torch.float32),
                      ["", "layer1", "layer2"], 4, 4, **{"steps": 10_000_000} | more)


@contextlib.contextmanager
def running(plan, *options, **variables):
    """The process of a run that has made its first step. Nothing of it outlives the context.
    `variables`: more of its environment."""
    process = subprocess.Popen([str(PENSTOCK), "execute", str(plan), *map(str, options),
                                *device_flags(plan)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env=clean_environment() | variables, start_new_session=True)
    hung = threading.Timer(120, end_group, [process])
    hung.start()
    try:
        lines = [""]
        while not lines[-1].startswith("step") and (line := process.stderr.readline()):
            lines.append(line)
        hung.cancel()
        assert lines[-1].startswith("step"), \
            f"ended with {process.wait()} before its first step:\n{''.join(lines)}"
        yield process
    finally:
        hung.cancel()
        end_group(process)
        process.communicate()


def workers_of(process):
    """Their process ids, in order of rank."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return sorted(int(pid) for pid in text.split())  # they are started in that order


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or read
        return False


def until(condition, what, patience_s=120):
    """Waits for it, with a generous limit: only what really hangs fails by it."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def wait_until_gone(pids):
    until(lambda: not any(alive(pid) for pid in pids), f"still running: {pids}")
