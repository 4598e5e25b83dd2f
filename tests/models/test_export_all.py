"""The build of the models that tests read ends where an export does, and names it."""

import os
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

import export_all

KILLS = """import faulthandler, os, signal, torch
faulthandler.disable()
def model():
    os.kill(os.getpid(), signal.{signal})
def example_inputs():
    return (torch.ones(4, 3),)
"""


@pytest.fixture
def killed_by(tmp_path, monkeypatch):
    """The message of an export beside one that sleeps, whose model kills the process."""
    def run(name):
        monkeypatch.setattr(export_all, "HERE", str(tmp_path))
        (tmp_path / "kills.py").write_text(KILLS.format(signal=name))
        (tmp_path / "sleeps.py").write_text("import time\ntime.sleep(500)\n")
        models = [("sleeping", "sleeps", [], {}), ("killing", "kills", [], {}),
                  ("never", "pippy", [], {})]
        with pytest.raises(SystemExit) as ended:
            export_all.export_each(models, str(tmp_path))
        return str(ended.value)
    return run


def test_an_export_that_is_killed_ends_the_build_and_is_named(killed_by, tmp_path):
    began = time.monotonic()
    assert "the export of killing was killed by signal 9 (SIGKILL)" in killed_by("SIGKILL")
    assert time.monotonic() - began < 400  # the other was not waited for
    assert not (tmp_path / "never.pt2").exists()


def test_one_that_the_processor_refuses_is_told_of_the_variable(killed_by):
    assert "(SIGILL)\n" in (message := killed_by("SIGILL")) and "ONEDNN_MAX_CPU_ISA" in message


def test_one_that_fails_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(export_all, "HERE", str(tmp_path))
    (tmp_path / "wrong.py").write_text("1 / 0\n")
    with pytest.raises(SystemExit, match="the export of a failed with exit status 1"):
        export_all.export_each([("a", "wrong", [], {})], str(tmp_path))


def test_all_models_are_exported(tmp_path):
    export_all.export_each([(name, "pippy", [], {}) for name in "abc"], str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["a.pt2", "b.pt2", "c.pt2"]
