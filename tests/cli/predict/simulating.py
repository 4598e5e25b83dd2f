"""Runs penstock simulate; shared by its tests."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
SYNTHETIC = BUILD / "tests" / "planner" / "synthetic-profile"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))

TIMES = ["--forward", "1ms", "--backward", "2ms"]
HALVES = ["--forward", "1ms", "--backward-input", "1ms", "--backward-weight", "1ms"]
STUDY = ["--schedule", "1f1b", "--ranks", 4, "--microbatches", 8]


def run(*arguments, env=None):
    command = [str(PENSTOCK), "simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(env or {})})


def simulated(*arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def refused(*arguments):
    """The message, after checking that nothing else was said."""
    done = run(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    return done.stderr
