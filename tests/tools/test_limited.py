"""tools/limited: a step that hangs is ended with all that it started, and named."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "limited"


@pytest.mark.parametrize("status", [0, 3])
def test_a_step_that_ends_in_time_keeps_its_status(status):
    done = subprocess.run([TOOL, "step", "60", "sh", "-c", f"exit {status}"], timeout=60)
    assert done.returncode == status


def test_a_step_that_hangs_is_ended_and_named():
    done = subprocess.run([TOOL, "pytest", "1", "sleep", "60"], capture_output=True, text=True,
                          timeout=50)
    assert done.returncode == 124
    assert "pytest took longer than 0 min 1 s and was ended" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_the_step_has_started(tmp_path, number):
    started = tmp_path / "started"
    process = subprocess.Popen([TOOL, "step", "60", "sh",
                                "-c", f"sleep 5000 & echo $! > {started}; wait"])
    while not (started.exists() and started.read_text().strip()):
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(timeout=40) != 0
    child = Path("/proc", started.read_text().strip(), "stat")
    while child.exists() and ") Z " not in child.read_text():  # it was sent a signal, and may take
        time.sleep(0.01)                                       # a moment to end
