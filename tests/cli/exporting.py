"""What the tests of `penstock export` share."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

from pipelines import PENSTOCK, TORCHRUN, clean_environment, save_file, torch


def export(plan, form, out, *options):
    return subprocess.run([PENSTOCK, "export", plan, "--format", form, "-o", out, *options],
                          capture_output=True, text=True, check=False)


def require_package(name):
    """Skips the tests of a file where a tool is not installed; does not import it."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed; tools/setup.sh --tests does it",
                    allow_module_level=True)


SMALL = {"dim": 32, "heads": 4, "vocabulary": 64, "sequence": 16, "feedforward": 64, "dropout": 0.0}
# Settings of configs/models/transformer.py with which tests/models/export_all.py exports the files
# of these names.
TRANSFORMERS = {"transformer-f64": {**SMALL, "layers": 4},
                "transformer-text-f64": {**SMALL, "layers": 2, "batch_first": True, "causal": True,
                                         "positions": True}}


def tokens(folder, samples=8, sequence=16, vocabulary=64):
    """Random tokens and targets; returns the file."""
    generator = torch.Generator().manual_seed(13)
    save_file({name: torch.randint(vocabulary, (samples, sequence), generator=generator)
               for name in ("tokens", "target")}, folder / "data.safetensors")
    return folder / "data.safetensors"


def run_cases(root, script, cases):
    """Two ranks of a script of this folder with the cases, which `root` keeps; returns `root`."""
    (root / "cases.json").write_text(json.dumps(cases))
    done = subprocess.run([TORCHRUN, "--standalone", "--nproc-per-node", "2",
                           Path(__file__).parent / "export" / script, root / "cases.json"],
                          capture_output=True, text=True, timeout=300, check=False,
                          env=clean_environment())
    assert done.returncode == 0, done.stderr[-4000:]
    return root
