"""Runs penstock plan on made-up profiles; shared by its tests."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
SYNTHETIC = BUILD / "tests" / "planner" / "synthetic-profile"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))


def run(*command, cwd=None):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120,
                          cwd=cwd)


def make_profile(folder, name, batch=8, sizes=(1, 2, 4)):
    """A made-up profile: the search only needs costs, not the hours to measure them."""
    model = MODELS / f"{name}.pt2"
    if not model.exists():
        pytest.skip(f"{model} is missing: the tests export it with torch from .venv")
    path = folder / f"{name}.json"
    done = run(SYNTHETIC, model, path, batch, *sizes)
    assert done.returncode == 0, done.stderr
    return path


def plan(folder, profile, *more, output="plan.yaml"):
    return run(PENSTOCK, "plan", profile, *more, "-o", folder / output)


def prediction(path, key):
    return re.search(rf"{key}: ([^,}}]+)", path.read_text()).group(1)


def begins(path):
    return re.findall(r'begin: "?([^",]*)"?,', path.read_text())


def write_meta_job(folder):
    """A job of a GPT without weights; skips where that was not exported."""
    model = MODELS / "gpt-meta.pt2"
    if not model.exists():
        pytest.skip(f"{model} is missing: the tests export it with torch from .venv")
    (folder / "job.yaml").write_text(
        f"penstock: job\nmodel: {model}\nloss: cross_entropy\n"
        "optimizer: {kind: adamw, learning_rate: 1e-3}\nglobal_batch: 8\n")
