"""Killed, stopped and interrupted processes: a run ends as a whole and says what happened."""

import os
import re
import signal

import pytest

from pipelines import any_device, needs_backend
from running import endless_plan, running, wait_until_gone, workers_of

pytestmark = needs_backend


@pytest.fixture
def endless(tmp_path):
    """A run of three ranks that has made its first step. Nothing of it outlives the test."""
    with running(endless_plan(tmp_path)) as process:
        yield process


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
