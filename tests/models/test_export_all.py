"""The build of the models that tests read ends where an export does, and names it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

KILLS = """import faulthandler, os, signal, torch
faulthandler.disable()
def model():
    os.kill(os.getpid(), signal.{signal})
def example_inputs():
    return (torch.ones(4, 3),)
"""
# In a process of its own: a fork of this one, in which torch has run, could wait for its threads.
EXPORT = """import sys
sys.path.insert(0, {here!r})
import export_all
export_all.HERE = sys.argv[1]
export_all.export_each([(name, file, [], {{}}) for name, file in
                        (pair.split("=") for pair in sys.argv[2:])], sys.argv[1])
"""


def export(folder, *models):
    program = EXPORT.format(here=str(Path(__file__).parent))
    return subprocess.run([sys.executable, "-c", program, str(folder), *models], text=True,
                          capture_output=True, timeout=300)


@pytest.fixture
def killed_by(tmp_path):
    """The ending of an export beside one that sleeps, whose model kills the process."""
    def run(name):
        (tmp_path / "kills.py").write_text(KILLS.format(signal=name))
        (tmp_path / "sleeps.py").write_text("import time\ntime.sleep(1000)\n")
        return export(tmp_path, "sleeping=sleeps", "killing=kills", "never=pippy")
    return run


def test_an_export_that_is_killed_ends_the_build_and_is_named(killed_by, tmp_path):
    done = killed_by("SIGKILL")  # no longer than the one that sleeps would take
    assert done.returncode == 1
    assert "the export of killing was killed by signal 9 (SIGKILL)" in done.stderr
    assert not (tmp_path / "never.pt2").exists()


def test_one_that_the_processor_refuses_is_told_of_the_variable(killed_by):
    message = killed_by("SIGILL").stderr
    assert "(SIGILL)\n" in message and "ONEDNN_MAX_CPU_ISA" in message


def test_one_that_fails_is_named(tmp_path):
    (tmp_path / "wrong.py").write_text("1 / 0\n")
    assert "the export of a failed with exit status 1" in export(tmp_path, "a=wrong").stderr


def test_all_models_are_exported(tmp_path):
    assert export(tmp_path, "a=pippy", "b=pippy", "c=pippy").returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["a.pt2", "b.pt2", "c.pt2"]
