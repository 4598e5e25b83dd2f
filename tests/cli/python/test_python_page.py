"""The code of docs/python.md runs as it stands there."""

import inspect
import re
import sys

import pytest

from feeding import launchers, penstock
from pipelines import ROOT, needs_backend

PAGE = (ROOT / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
LAUNCHED = f"""
import sys
sys.path.insert(0, {str(ROOT / "python")!r})
import penstock, torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
data = TensorDataset(torch.randn(64, 32, generator=torch.Generator().manual_seed(1)),
                     torch.arange(64) % 10)
"""


@needs_backend
def test_the_code_of_the_page_trains(tmp_path, monkeypatch, capsys):
    first, launched = BLOCKS
    monkeypatch.chdir(tmp_path)
    exec(compile(first, "docs/python.md", "exec"), {"__name__": "page"})
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [words[::2] for words in printed] == [["step", "loss", "validation"]] * 2
    assert all(float(words[-1]) > 0 for words in printed)
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == [
        "step-16", "step-24", "step-32"]
    # On a busy machine the searched plan may be of one rank.
    penstock.plan("profile.json", "plan.yaml", split="1:end", microbatches=4)
    (tmp_path / "train.py").write_text(LAUNCHED + launched + "\nprint(loss)\n")
    done = launchers.ranks_by_hand([[sys.executable, "train.py"]] * 2)
    assert [status for status, _, _ in done] == [0, 0], done
    assert done[0][1] == done[1][1] != ""


@pytest.mark.parametrize("row", re.findall(r"^\| (`.*?`) \| ", PAGE, re.M))
def test_what_the_table_names_is_there(row):
    for name, arguments in re.findall(r"`(\w+)(\(.*?\))?`", row):
        if name not in ("Pipeline", *dir(penstock.Pipeline), *penstock.Pipeline.__annotations__):
            continue  # of another library
        if name == "Pipeline" or not arguments:
            continue
        known = inspect.signature(getattr(penstock.Pipeline, name)).parameters
        for argument in re.findall(r"(\w+)=", arguments):
            assert argument in known, f"{name} has no {argument}"


def test_the_signature_of_pipeline_is_that_of_the_page():
    shown = re.search(r"`Pipeline\((.*?)\)`", PAGE).group(1).replace('"', "'")
    known = inspect.signature(penstock.Pipeline).parameters.values()
    assert shown == ", ".join(str(each.replace(annotation=inspect.Parameter.empty))
                              for each in known)
