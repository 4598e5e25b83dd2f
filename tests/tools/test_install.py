"""What `meson install` writes works by itself, in any folder and elsewhere than at its prefix."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
MESON = Path(sys.executable).with_name("meson")
TOOLS = ("penstock", "penstock-export", "penstock-make-data")

needs_backend = pytest.mark.skipif(
    not (BUILD / "penstock-worker").exists(), reason="penstock-worker is not built: no LibTorch"
)

MARKED = """
import torch
from penstock import pipe_split


class Marked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.first(x)
        pipe_split()
        return self.second(y)


def model():
    return Marked()


def example_inputs():
    return (torch.randn(2, 3),)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that holds bin/ and share/."""
    staging = tmp_path_factory.mktemp("staging")
    subprocess.run(
        [MESON, "install", "-C", BUILD, "--no-rebuild", "--destdir", staging],
        check=True,
        capture_output=True,
    )
    (program,) = staging.rglob("bin/penstock")
    return program.parents[1]


@pytest.fixture
def run(installed, tmp_path):
    """Runs an installed program in an empty folder; returns what it wrote to stdout."""

    def run(name, *arguments, status=0, **variables):
        done = subprocess.run(
            [installed / "bin" / name, *arguments],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            env=os.environ | variables,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stderr if status else done.stdout

    return run


@needs_backend
def test_a_model_of_configs_is_trained_as_the_docs_say(installed, run, tmp_path):
    shutil.copytree(installed / "share/penstock/configs", tmp_path / "configs")
    run("penstock-make-data", "-o", "build/data")
    run("penstock-export", "configs/models/pippy.py", "-o", "build/models/pippy.pt2")
    run("penstock", "profile", "configs/jobs/pippy.yaml", "-o", "profile.json")
    run(
        "penstock",
        "plan",
        "profile.json",
        "--ranks",
        "2",
        "--split",
        "layer1:end",
        "-o",
        "plan.yaml",
    )
    result = json.loads(run("penstock", "execute", "plan.yaml", "--steps", "2", "--json"))
    assert result["ranks"] == 2
    assert len(result["losses"]) == 2


def test_a_users_model_imports_penstock(run, tmp_path):
    (tmp_path / "mine.py").write_text(MARKED)
    run("penstock-export", "mine.py", "-o", "mine.pt2")
    assert "pipe_split" in run("penstock", "show", "mine.pt2")


@pytest.mark.parametrize("name", TOOLS)
def test_help_calls_a_program_by_its_installed_name(run, name):
    words = run(name, "--help").lower().replace("usage: ", "\0").split("\0")[1].split()
    assert words[0] == name


def test_mistakes_are_told_by_the_installed_name(run):
    message = run("penstock-export", "none.py", "-o", "out.pt2", status=2)
    assert message.startswith("penstock-export: error: none.py: no such file")


def test_penstock_python_names_the_python_of_the_exporter(installed, run):
    shown = run("penstock-export", "mine.py", PENSTOCK_PYTHON="echo").split()
    assert Path(shown[0]).resolve() == installed / "share/penstock/penstock-export"
    assert shown[1:] == ["mine.py"]
    message = run("penstock-export", status=2, PENSTOCK_PYTHON="/none/python")
    assert message.startswith("penstock-export: /none/python: no such program")


def test_a_licence_and_docs_are_there(installed):
    documents = installed / "share/doc/penstock"
    assert "Apache License" in (documents / "LICENSE").read_text()
    assert (documents / "docs/installing.md").exists()
