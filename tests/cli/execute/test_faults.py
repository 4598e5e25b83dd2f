"""Every kind of fault, before, in and after every kind of action: ranks that are killed, stopped or
hang, snapshots that are damaged, memory that is short."""

import contextlib
import re
import signal
from pathlib import Path

import pytest

from pipelines import execute_json, needs_backend
from running import endless_plan, running, until, workers_of
from surviving import (actions, all_hang, assert_undisturbed, fault_list, flip, slots_of, survive,
                       tensors_of, until_they_happened, went_on)

pytestmark = [pytest.mark.long, needs_backend]

ADAMW = {"kind": "adamw", "learning_rate": 0.01, "clip_norm": 1.0}
# Long beside an action of these plans, which takes a millisecond, so that no other rank is accused.
PATIENCE = {"PENSTOCK_HANG_AFTER": "2s"}


def one_of_each_kind(plan):
    """Rank and position of an action of each kind."""
    kinds = {}
    for rank, row in enumerate(actions(plan)):
        for position, action in enumerate(row):
            kind = re.sub(r"^\d+|\d+$", "", action)
            kinds.setdefault(kind, (rank, position))
    return kinds


@pytest.mark.parametrize("kind", ["kill", "stop", "spin"])
def test_before_in_and_after_each_kind_of_action(tmp_path, kind):
    plan = endless_plan(tmp_path, steps=100, optimizer=ADAMW, schedule="zb-h1")
    kinds = one_of_each_kind(plan)
    assert {"F", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "OPT"} == kinds.keys()
    places = [(rank, f"{position}{half}") for rank, position in kinds.values()
              for half in ("", ".5")]
    places += [(0, "end"), (1, "copy"), (2, "end")]
    faults = [f"{rank} {3 * step} {place} {kind}" for step, (rank, place) in enumerate(places, 1)]
    said = assert_undisturbed(plan, faults, **PATIENCE)
    assert said.count("for nobody: it was killed") == (len(faults) if kind == "spin" else 0) - \
        said.count("and all ranks wait")


def test_a_rank_that_hangs_is_the_one_that_is_named(tmp_path):
    plan = endless_plan(tmp_path, steps=20)
    done, _ = survive(plan, faults=["2 4 3 spin", "1 9 end spin", "0 14 0 spin"], **PATIENCE)
    assert done.returncode == 0
    assert re.findall(r"rank (\d) .* in step (\d+)", done.stderr) == [("2", "4"), ("1", "9"),
                                                                      ("0", "14")]


def test_a_rank_that_hangs_at_the_same_action_again_ends_the_run(tmp_path):
    plan = endless_plan(tmp_path, steps=20)
    done, happened = survive(plan, faults=["1 4 3 spin"] * 2, **PATIENCE)
    assert done.returncode == 1 and len(happened) == 2 and "It failed there before." in done.stderr
    assert went_on(done.stderr) in ([3], [4])


def test_where_all_ranks_wait_the_link_is_named_and_made_anew_once(tmp_path):
    """A rank that hangs as it waits for a message looks, from outside, like one that lost it."""
    plan = endless_plan(tmp_path, steps=20)
    later = actions(plan)[2].index("2RECV_F1")
    faults = ["1 4 0.5 spin", "1 9 0.5 spin", f"2 9 {later}.5 spin"]
    done, happened = survive(plan, faults=faults, **PATIENCE)
    assert done.returncode == 1 and len(happened) == 3
    links = re.findall(r"in step (\d+) at \dRECV_F.* the message of rank (\d) to rank (\d) is lost",
                       done.stderr)
    assert links == [("4", "0", "1"), ("9", "0", "1"), ("9", "1", "2")]
    assert "All ranks waited before, and were connected anew." in done.stderr


def test_a_hang_is_warned_of_once_where_the_run_does_not_survive_it(tmp_path):
    plan, faults = endless_plan(tmp_path), tmp_path / "faults"
    faults.write_text("1 5 3 spin\n")
    with running(plan, PENSTOCK_FAULTS=str(faults), **PATIENCE) as process:
        words = next(line for line in process.stderr if "seems to hang" in line)
        assert re.search(r"rank 1 \(process \d+\) has been in step 5 at 1\S+ for .* and waits for "
                         "nobody", words)
        assert len(workers_of(process)) == 3 and process.poll() is None
        process.send_signal(signal.SIGINT)
        assert "seems to hang" not in process.communicate(timeout=60)[1]


def test_a_time_that_is_none_is_refused(tmp_path):
    for wrong in ("soon", "0.01s"):
        done, _ = survive(endless_plan(tmp_path), PENSTOCK_HANG_AFTER=wrong)
        assert done.returncode == 2 and "PENSTOCK_HANG_AFTER" in done.stderr


# Damaged snapshots.

STEP = 100  # all ranks hang in it


@contextlib.contextmanager
def hanging(plan, *options, after=None):
    """A run whose ranks hang, which its supervisor does not see before the context ends.
    `after`: a checkpoint that is to be there."""
    folder = Path(plan).parent
    with running(plan, "--survive", "local", *options, **fault_list(folder, all_hang(plan, STEP)),
                 **PATIENCE) as process:
        next(line for line in process.stderr if line.startswith("step  10/"))
        if after:  # the supervisor writes it
            until(after.exists, f"{after} is not written")
        process.send_signal(signal.SIGSTOP)  # once it knows how long actions take
        until_they_happened(folder)
        yield process


def go_on(process):
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=120)
    return errors


def assert_same_weights(tmp_path, plan):
    execute_json(plan, "--save", tmp_path / "whole")
    found, expected = (tensors_of(tmp_path / name / f"step-{STEP + 20}")
                       for name in ("saved", "whole"))
    assert found.keys() == expected.keys() and len(found) > 0
    assert all(bool((found[key] == value).all()) for key, value in expected.items())


def test_a_damaged_snapshot_is_named_and_the_one_before_it_goes_on(tmp_path):
    plan = endless_plan(tmp_path, steps=STEP + 20, optimizer=ADAMW)
    with hanging(plan, "--save", tmp_path / "saved") as process:
        flip(slots_of(process)[2][(STEP - 1) % 2])
        errors = go_on(process)
        assert process.returncode == 0, errors
    assert f"rank 2: its snapshot of the state before step {STEP} is damaged (slot 1)" in errors
    assert went_on(errors) == [STEP - 1]
    assert_same_weights(tmp_path, plan)


def test_where_both_snapshots_are_damaged_the_last_checkpoint_goes_on(tmp_path):
    plan = endless_plan(tmp_path, steps=STEP + 20, optimizer=ADAMW)
    saved = tmp_path / "saved"
    with hanging(plan, "--save", saved, "--save-every", 30, after=saved / "step-90") as process:
        for slot in slots_of(process)[0]:
            if slot.stat().st_size > 0:
                flip(slot)
        errors = go_on(process)
        assert process.returncode == 0, errors
    # The third holds step 90 where the supervisor was stopped before it freed it.
    assert errors.count("is damaged (slot") in (2, 3)
    assert f"The run goes on with step 91, from {tmp_path}/saved/step-90." in errors
    assert_same_weights(tmp_path, plan)


def test_where_nothing_is_intact_the_run_ends(tmp_path):
    with hanging(endless_plan(tmp_path, steps=STEP + 20)) as process:
        for slot in slots_of(process)[0]:
            if slot.stat().st_size > 0:
                flip(slot)
        errors = go_on(process)
        assert process.returncode == 1
    assert "Its snapshots are damaged, and there is no checkpoint of it on disk." in errors


# Memory, of the machine and of a disk.


def test_the_system_ends_a_worker_before_the_supervisor_where_memory_is_short(tmp_path):
    def score(pid):
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    with running(endless_plan(tmp_path)) as process:
        assert all(score(worker) > score(process.pid) for worker in workers_of(process))


def test_a_full_disk_costs_checkpoints_and_a_killed_rank_nothing(tmp_path, mount_disk):
    plan = endless_plan(tmp_path, steps=8, optimizer=ADAMW)
    whole = execute_json(plan, "--save", tmp_path / "whole")
    size = sum(file.stat().st_size for file in (tmp_path / "whole" / "step-8").iterdir())
    disk = mount_disk(tmp_path / "disk", f"{size * 3 // 2 // 1024}k")  # room for one
    done, _ = survive(plan, "--save", disk / "saved", "--save-every", 2, "--keep", 1,
                      faults=["1 5 3 kill"])
    assert done.returncode == 2 and went_on(done.stderr) in ([4], [5])
    assert "No space left" in done.stderr
    assert tensors_of(disk / "saved" / "step-2")
    assert whole["losses"]
