"""What penstock makes of its workers, by workers that are scripts."""

import re
import shutil
import subprocess

import pytest

from pipelines import (BUILD, clean_environment, good_plan, model_path, needs_backend, torch,
                       vectors, write_plan)

pytestmark = needs_backend  # plans are written for its models

SCRIPT = """#!/usr/bin/env python3
import json, os, signal, sys, time
task = json.loads(sys.stdin.readline())
def say(**event):
    print(json.dumps(event), flush=True)
"""
LOST = SCRIPT + """
if task["rank"] == 0:
    say(event="error", kind="peer", rank=0, lost=1, step=3, action="",
        message="lost rank 1: its socket closed")
    time.sleep(60)
time.sleep({seconds})
os.kill(os.getpid(), signal.SIGKILL)
"""
COUNTED = SCRIPT + """
if task["command"] == "devices":
    say(event="devices", count={count})
else:
    say(event="error", kind="input", rank=0, lost=-1, step=-1, action="",
        message=f"{{task['world_size']}} ranks here")
    sys.exit(2)
"""


@pytest.fixture
def penstock(tmp_path):
    """Makes a program whose workers are the script."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy(BUILD / "penstock", programs)

    def make(script):
        worker = programs / "penstock-worker"
        worker.write_text(script)
        worker.chmod(0o755)
        return programs / "penstock"
    return make


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=120, env=clean_environment())


@pytest.mark.parametrize("seconds", [0, 2])
def test_a_rank_that_was_killed_is_the_cause_however_long_it_takes_to_end(
        penstock, tmp_path, seconds):
    """A GPU's driver may need seconds to let go of a process whose sockets are closed already."""
    done = run(penstock(LOST.format(seconds=seconds)), "execute", good_plan(tmp_path))
    assert done.returncode == 1
    assert re.search(r"rank 1 \(process \d+\) ended .*SIGKILL", done.stderr), done.stderr


def test_a_rank_that_is_lost_but_does_not_end_is_not_waited_for_for_good(penstock, tmp_path):
    done = run(penstock(LOST.format(seconds=60)), "execute", good_plan(tmp_path))
    assert done.returncode == 1
    assert "rank 0 failed in step 4: lost rank 1: its socket closed" in done.stderr


MUTUAL = SCRIPT + """
if task["rank"] < 2:
    time.sleep(2 * task["rank"])
    say(event="error", kind="peer", rank=task["rank"], lost=1 - task["rank"], step=3, action="",
        message=f"lost rank {1 - task['rank']}")
    sys.exit(1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""


def test_a_rank_that_had_to_be_killed_is_not_the_cause(penstock, tmp_path):
    """Two lose each other, two seconds apart; the third has nothing to do with it."""
    plan = write_plan(tmp_path, model_path("pippy"), vectors(tmp_path, "x", 512, torch.float32),
                      ["", "layer1", "layer2"], 4, 4)
    done = run(penstock(MUTUAL), "execute", plan)
    assert done.returncode == 1
    assert "rank 0 failed in step 4: lost rank 1" in done.stderr, done.stderr


@pytest.mark.parametrize("flags, count, ranks",
                         [([], 1, 1), ([], 2, 2), ([], 8, 2), (["--ranks", "4"], 8, 4),
                          (["--ranks-per-device", "2"], 1, 2)])
def test_a_profile_is_measured_by_two_ranks_where_there_are_gpus_for_them(
        penstock, tmp_path, flags, count, ranks):
    job = tmp_path / "job.yaml"
    job.write_text(f"penstock: job\nmodel: {BUILD}/tests/models/pippy.pt2\nloss: cross_entropy\n"
                   "optimizer: {kind: sgd, learning_rate: 0.1}\nglobal_batch: 4\n")
    done = run(penstock(COUNTED.format(count=count)), "profile", job, "--device", "cuda", *flags,
               "-o", tmp_path / "profile.json")
    assert done.returncode == 2
    assert f"{ranks} ranks here" in done.stderr
