"""Killed, stopped and interrupted processes: a run ends as a whole and says what happened."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pipelines import (PENSTOCK, any_device, clean_environment, device_flags, model_path, needs_backend, torch, vectors,
                       write_plan)

pytestmark = needs_backend


def endless(folder):
    plan = write_plan(folder, model_path("pippy"), vectors(folder, "x", 512, torch.float32),
                      ["", "layer1", "layer2"], 4, 4, steps=10_000_000)
    process = subprocess.Popen([str(PENSTOCK), "execute", str(plan), *device_flags(plan)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=clean_environment(), start_new_session=True)
    for line in process.stderr:
        if line.startswith("step"):
            return process
    raise AssertionError(f"ended with {process.wait()} before its first step")


def workers_of(process):
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in text.split()]


def rank_of(worker, workers):
    return sorted(workers).index(worker)  # they are started in order of rank


def wait_until_gone(pids, patience_s=30):
    """A generous limit, so that only a process that really stays fails the test."""
    end = time.monotonic() + patience_s
    alive = lambda pid: Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()
    while time.monotonic() < end:
        try:
            if not any(alive(pid) for pid in pids):
                return
        except FileNotFoundError:
            continue
        time.sleep(0.01)
    raise AssertionError(f"still running: {pids}")


@any_device
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_worker_ends_the_run_and_is_named(tmp_path, victim):
    process = endless(tmp_path)
    workers = workers_of(process)
    assert len(workers) == 3
    os.kill(sorted(workers)[victim], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(rf"rank {victim} \(process {sorted(workers)[victim]}\) ended in step \d+.*SIGKILL", errors)
    wait_until_gone(workers)


@any_device
def test_a_stopped_worker_does_not_outlive_the_others(tmp_path):
    process = endless(tmp_path)
    workers = sorted(workers_of(process))
    os.kill(workers[1], signal.SIGSTOP)
    os.kill(workers[2], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "rank 2" in errors
    wait_until_gone(workers)


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_all_workers(tmp_path, number, status):
    process = endless(tmp_path)
    workers = workers_of(process)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == status
    wait_until_gone(workers)


@any_device
def test_workers_do_not_outlive_a_killed_penstock(tmp_path):
    process = endless(tmp_path)
    workers = workers_of(process)
    process.kill()
    process.wait()
    wait_until_gone(workers)
