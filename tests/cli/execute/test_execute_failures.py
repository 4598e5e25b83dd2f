"""Killed, stopped and interrupted processes: a run ends as a whole and says what happened."""

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from pipelines import (PENSTOCK, any_device, clean_environment, device_flags, model_path,
                       needs_backend, torch, vectors, write_plan)

pytestmark = needs_backend


def end_group(process):
    """Penstock and its workers, whatever is left of them."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.fixture
def endless(tmp_path):
    """A run of three ranks that has made its first step. Nothing of it outlives the test."""
    plan = write_plan(tmp_path, model_path("pippy"), vectors(tmp_path, "x", 512, torch.float32),
                      ["", "layer1", "layer2"], 4, 4, steps=10_000_000)
    process = subprocess.Popen([str(PENSTOCK), "execute", str(plan), *device_flags(plan)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=clean_environment(), start_new_session=True)
    hung = threading.Timer(120, end_group, [process])
    hung.start()
    try:
        first = next((line for line in process.stderr if line.startswith("step")), None)
        hung.cancel()
        assert first, f"ended with {process.wait()} before its first step"
        yield process
    finally:
        hung.cancel()
        end_group(process)
        process.communicate()


def workers_of(process):
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in text.split()]


def rank_of(worker, workers):
    return sorted(workers).index(worker)  # they are started in order of rank


def wait_until_gone(pids, patience_s=30):
    """A generous limit, so that only a process that really stays fails the test."""
    end = time.monotonic() + patience_s

    def alive(pid):
        folder = Path(f"/proc/{pid}")
        return folder.exists() and " Z " not in (folder / "stat").read_text()

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
def test_a_killed_worker_ends_the_run_and_is_named(endless, victim):
    workers = workers_of(endless)
    assert len(workers) == 3
    os.kill(sorted(workers)[victim], signal.SIGKILL)
    _, errors = endless.communicate(timeout=60)
    assert endless.returncode == 1
    assert re.search(rf"rank {victim} \(process {sorted(workers)[victim]}\) ended in step "
                     rf"\d+.*SIGKILL", errors)
    wait_until_gone(workers)


@any_device
def test_a_stopped_worker_does_not_outlive_the_others(endless):
    workers = sorted(workers_of(endless))
    os.kill(workers[1], signal.SIGSTOP)
    os.kill(workers[2], signal.SIGKILL)
    _, errors = endless.communicate(timeout=60)
    assert endless.returncode == 1 and "rank 2" in errors
    wait_until_gone(workers)


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_all_workers(endless, number, status):
    workers = workers_of(endless)
    os.killpg(endless.pid, number) if number == signal.SIGINT else endless.send_signal(number)
    endless.communicate(timeout=60)
    assert endless.returncode == status
    wait_until_gone(workers)


@any_device
def test_workers_do_not_outlive_a_killed_penstock(endless):
    workers = workers_of(endless)
    endless.kill()
    endless.wait()
    wait_until_gone(workers)
