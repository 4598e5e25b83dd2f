"""What the tests of tools/export_model.py share: runs of it, and files of users."""

import contextlib
import functools
import io
import json
import sys
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "export_model.py"
MODELS = ROOT / "configs" / "models"
sys.path.insert(0, str(ROOT / "tools"))

import export_model

class Result:
    def __init__(self, code, output, captured):
        self.code, self.path, self.messages = code, output, captured[1]
        self.report = captured[0]

    @functools.cached_property
    def program(self):
        return torch.export.load(str(self.path))

    @property
    def facts(self):
        return json.loads(self.read("extra/penstock.json"))

    def read(self, name):
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(f"archive/{name}")

    def nodes(self, target):
        return [node for node in self.program.graph.nodes if str(node.target) == target]

    def targets(self):
        return {str(node.target) for node in self.program.graph.nodes if node.op == "call_function"}


def run_export(folder, file, settings=(), options=(), output="out.pt2"):
    path = MODELS / f"{file}.py" if isinstance(file, str) else file
    pairs = [part for setting in settings for part in ("--set", setting)]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = export_model.main([str(path), "-o", str(folder / output), *pairs, *options])
    return Result(code, folder / output, (out.getvalue(), err.getvalue()))


@pytest.fixture
def export(tmp_path):
    """Exports a model of configs/models by name, or a file; returns the Result."""
    return lambda file, *settings, **rest: run_export(tmp_path, file, settings, **rest)


@pytest.fixture
def user_file(tmp_path):
    """Writes a user's model file with a forward(self, x) of the given body."""

    def write(forward, init="", inputs="(torch.randn(4, 3),)", arguments="x", after=""):
        text = ("import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
                "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                "        self.linear = nn.Linear(3, 3)\n")
        text += "".join(f"        {line}\n" for line in init.splitlines())
        text += f"    def forward(self, {arguments}):\n"
        text += "".join(f"        {line}\n" for line in forward.splitlines())
        text += f"def model():\n    return Net(){after}\n"
        text += f"def example_inputs():\n    return {inputs}\n"
        path = tmp_path / "user_model.py"
        path.write_text(text)
        return path

    return write


def refused(result, *words):
    assert result.code == 2
    assert not result.path.exists()
    assert result.messages.count("error:") == 1 and "Traceback" not in result.messages
    for word in words:
        assert word in result.messages
    assert sorted(p.name for p in result.path.parent.iterdir() if p.suffix != ".py") == []
