"""What happens to a run while it is planned anew for fewer ranks."""

import os
import re
import signal
from pathlib import Path

import pytest

from launchers import end_all
from pipelines import execute_json, needs_backend
from running import until
from surviving import until_they_happened
from test_launched_survival import contents, running
from test_shrinking import SAVING, STEPS, losses_of, measured_images, replicas
from test_spares import LOST_IN, hangs

pytestmark = needs_backend


@pytest.fixture
def four_ranks(tmp_path):
    return replicas(tmp_path, measured_images(tmp_path))


def is_pending(process, number):
    masks = re.findall(r"(?:Sig|Shd)Pnd:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())
    return any(int(mask, 16) >> number - 1 & 1 for mask in masks)


def while_it_plans(plan, victim, disturb):
    """The end of a run of four ranks that has lost one, and is disturbed while it plans: its
    profile is a pipe, which planning reads at its end."""
    folder, opened = plan.parent, []
    profile = folder / "profile.json"

    def is_read():
        try:
            opened.append(os.open(profile, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # by nobody
            return False
        return True

    with running(plan, 4, "--shrink", *SAVING, folder / "saved",
                 **hangs(plan)) as (processes, _):
        until_they_happened(folder)
        until(lambda: (folder / "saved" / "step-20").exists(), "nothing is saved")
        kept = profile.rename(folder / "kept.json")
        os.mkfifo(profile)
        processes[victim].kill()
        until(is_read, "it does not plan")
        disturb(processes)
        os.set_blocking(opened[0], True)
        content = kept.read_bytes()
        kept.rename(profile)  # for whoever plans next
        with os.fdopen(opened[0], "wb") as pipe:
            pipe.write(content)
        return end_all(processes)


def test_who_is_lost_while_it_plans_is_not_planned_for(four_ranks):
    *left, second, first = while_it_plans(four_ranks, 3,
                                          lambda processes: processes[2].kill())
    assert [status for status, _, _ in left] == [0, 0], left
    assert second[0] == first[0] == -signal.SIGKILL
    plans = re.findall(r"now: .* on (\d) ranks?( x 2 replicas)?,", left[0][2])
    assert plans[-1] in (("1", ""), ("2", ""), ("1", " x 2 replicas")), left
    assert len(losses_of(four_ranks.parent / "m.jsonl")) == STEPS


def test_a_signal_while_it_plans_ends_the_run_saved(four_ranks):
    def disturb(processes):
        processes[0].send_signal(signal.SIGUSR1)
        until(lambda: not is_pending(processes[0], signal.SIGUSR1), "it looks at no signals")

    first, *others = while_it_plans(four_ranks, 3, disturb)
    assert first[0] == 138 and "planned anew" not in first[2], first
    assert all(status for status, _, _ in others), others
    saved = four_ranks.parent / "saved"
    newest = max(int(path.name.removeprefix("step-")) for path in saved.glob("step-*"))
    assert newest == LOST_IN - 1
    execute_json(four_ranks, "--steps", newest, "--save", saved.with_name("whole"))
    assert contents(saved / f"step-{newest}") == contents(
        saved.with_name("whole") / f"step-{newest}")
