"""A run that ends early, however it ends, goes on by the same command and ends as it would have."""

import json
import os
import re
import signal
import subprocess

import pytest

from pipelines import (any_device, difference, execute, execute_json, good_plan, load_file,
                       model_path, needs_backend, torch, vectors, write_plan)
from running import endless_plan, running, wait_until_gone, workers_of

pytestmark = needs_backend

FLOAT64 = 1e-10


def steps_in(folder):
    return sorted((path.name for path in folder.iterdir()), key=lambda name: (len(name), name))


def kept(folder):
    """The command's flags by which a run begins and goes on."""
    return ["--save", folder, "--resume", folder]


def tensors_of(checkpoint):
    return {key: value for file in sorted(checkpoint.glob("stage-*.safetensors"))
            for key, value in load_file(file).items()}


def assert_equal(one, other):
    one, other = tensors_of(one), tensors_of(other)
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[key]) for key, value in one.items())


def next_line(process, word):
    """The next line of its messages with that word."""
    line = next((line for line in process.stderr if word in line), None)
    assert line, f"ended with {process.wait()} without {word!r}"
    return line


def test_one_command_begins_a_run_goes_on_with_it_and_finds_nothing_left(tmp_path):
    plan, saved = good_plan(tmp_path, steps=5), tmp_path / "saved"
    whole = execute_json(plan, "--save", tmp_path / "whole")
    saved.mkdir()  # empty or not there: both are a beginning
    begun = execute(plan, "--steps", 2, "--json", *kept(saved))
    assert begun.returncode == 0 and "holds no checkpoint yet" in begun.stderr
    rest = execute_json(plan, *kept(saved))
    assert json.loads(begun.stdout)["losses"] + rest["losses"] == whole["losses"]
    assert_equal(saved / "step-5", tmp_path / "whole" / "step-5")
    again = execute(plan, *kept(saved), "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["steps"] == 0
    assert f"{saved}/step-5 has done all 5 steps: nothing is left to do" in again.stderr
    fewer = execute(plan, *kept(saved), "--steps", 3)
    assert fewer.returncode == 2 and "5 steps, more than the run's 3" in fewer.stderr
    assert steps_in(saved) == ["step-2", "step-5"]


@any_device
def test_a_killed_run_ends_at_the_same_step_with_the_same_bits(tmp_path):
    """Killed five times at no particular moment, with what it was writing then."""
    plan = endless_plan(tmp_path, steps=200, optimizer={"kind": "adamw", "learning_rate": 0.01})
    execute_json(plan, "--save", tmp_path / "whole")
    options = ["--save-every", 1, *kept(tmp_path / "saved")]
    for _ in range(5):
        with running(plan, *options) as process:
            os.kill(process.pid, signal.SIGKILL)
    done = execute(plan, *options)
    assert done.returncode == 0, done.stderr
    assert steps_in(tmp_path / "saved") == ["step-198", "step-199", "step-200"]
    assert_equal(tmp_path / "saved" / "step-200", tmp_path / "whole" / "step-200")


def test_weights_to_start_from_stay_in_the_command(tmp_path):
    plan, weights = good_plan(tmp_path), tmp_path / "weights.safetensors"
    execute_json(plan, "--save", tmp_path / "first")
    state = {key.removeprefix("parameter."): value
             for key, value in tensors_of(tmp_path / "first" / "step-3").items()
             if key.startswith("parameter.")}
    torch_save = pytest.importorskip("safetensors.torch").save_file
    torch_save(state, weights)
    whole = execute_json(plan, "--weights", weights)["losses"]
    options = ["--weights", weights, *kept(tmp_path / "saved")]
    first = execute_json(plan, "--steps", 1, *options)["losses"]
    assert first + execute_json(plan, *options)["losses"] == whole


def test_saves_are_at_the_steps_of_an_undisturbed_run(tmp_path):
    plan, options = good_plan(tmp_path, steps=7), ["--save-every", 3, *kept(tmp_path / "saved")]
    execute_json(plan, "--steps", 2, *options)
    execute_json(plan, *options)
    assert steps_in(tmp_path / "saved") == ["step-3", "step-6", "step-7"]


@pytest.mark.parametrize("flags, steps", [([], [4, 5, 6]), (["--keep", 1], [6]),
                                          (["--keep", 100], [1, 2, 3, 4, 5, 6])])
def test_the_latest_checkpoints_are_kept(tmp_path, flags, steps):
    execute_json(good_plan(tmp_path, steps=6), "--save-every", 1, "--save", tmp_path / "saved",
                 *flags)
    assert steps_in(tmp_path / "saved") == [f"step-{step}" for step in steps]


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [cut, flip, os.unlink], ids=["cut", "flipped", "lost"])
@pytest.mark.parametrize("file", ["stage-0.safetensors", "stage-1.safetensors", "manifest.json"])
def test_the_latest_intact_checkpoint_goes_on_and_damaged_ones_are_named(tmp_path, harm, file):
    plan, saved = good_plan(tmp_path, steps=4), tmp_path / "saved"
    whole = execute_json(plan, "--save", tmp_path / "whole")["losses"]
    execute_json(plan, "--steps", 3, "--save-every", 1, "--save", saved)
    for step in (2, 3):
        harm(saved / f"step-{step}" / file)
    (saved / ".step-4.unfinished").mkdir()
    done = execute(plan, "--save-every", 1, *kept(saved), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["losses"] == whole[1:]
    for step in (2, 3):
        assert f"{saved}/step-{step} is damaged and left out: {saved}/step-{step}/{file}:" \
            in done.stderr
    assert_equal(saved / "step-4", tmp_path / "whole" / "step-4")
    assert steps_in(saved) == ["step-2", "step-3", "step-4"]  # written again


def test_where_none_is_intact_nothing_is_begun(tmp_path):
    plan, saved = good_plan(tmp_path), tmp_path / "saved"
    execute_json(plan, "--save-every", 1, "--save", saved)
    for path in saved.glob("step-*/stage-0.safetensors"):
        cut(path)
    done = execute(plan, *kept(saved))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("penstock: ") == 1
    for words in ["holds no intact checkpoint", "step-1", "step-2", "step-3", "sha256"]:
        assert words in done.stderr


def test_a_full_disk_costs_checkpoints_and_not_the_run(tmp_path, mount_disk):
    """There is room for one and a half of 4 MiB."""
    disk = mount_disk(tmp_path / "disk", "6m")
    plan = good_plan(tmp_path)
    done = execute(plan, "--save-every", 1, *kept(disk / "saved"))
    assert done.returncode == 2  # the last one counts
    for step in (2, 3):
        assert re.search(f"{disk}/saved/step-{step}: is not saved: .*"
                         "cannot be written: No space left on device", done.stderr)
    assert steps_in(disk / "saved") == ["step-1"]
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
    execute_json(plan, "--save-every", 1, *kept(disk / "saved"))
    execute_json(plan, "--save", tmp_path / "whole")
    assert_equal(disk / "saved" / "step-3", tmp_path / "whole" / "step-3")


@any_device
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_the_step_in_progress(tmp_path, number):
    plan, saved, metrics = endless_plan(tmp_path), tmp_path / "saved", tmp_path / "m.jsonl"
    options = [*kept(saved), "--metrics", metrics]
    for _ in range(2):
        with running(plan, *options) as process:
            workers = workers_of(process)
            os.killpg(process.pid, number)  # as some launchers do
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 128 + number, errors
            assert f"ended by {number.name}" in errors
            wait_until_gone(workers)
    first, second = (int(name.removeprefix("step-")) for name in steps_in(saved))
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, second + 1))
    assert first < second and f"The last checkpoint is {saved}/step-{second}." in errors
    execute_json(plan, "--save", tmp_path / "whole", "--steps", second)
    assert_equal(saved / f"step-{second}", tmp_path / "whole" / f"step-{second}")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_run_that_is_stuck(tmp_path, second):
    with running(endless_plan(tmp_path), "--save", tmp_path / "saved") as process:
        workers = workers_of(process)
        os.kill(workers[1], signal.SIGSTOP)
        process.send_signal(signal.SIGUSR1)
        next_line(process, "a second signal ends it at once")
        process.send_signal(second)
        process.communicate(timeout=60)
        assert process.returncode == 128 + second
        wait_until_gone(workers)
        assert not (tmp_path / "saved").exists()


def test_a_rank_that_is_killed_meanwhile_is_named(tmp_path):
    with running(endless_plan(tmp_path), "--save", tmp_path / "saved") as process:
        workers = workers_of(process)
        os.kill(workers[1], signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        next_line(process, "a second signal ends it at once")
        os.kill(workers[2], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM
        assert "ended by SIGTERM; rank 2" in errors and "SIGKILL" in errors
        wait_until_gone(workers)


@pytest.mark.parametrize("first, then", [(1, 2), (2, 1), (2, 4), (4, 1)])
def test_a_checkpoint_goes_on_with_any_number_of_replicas(tmp_path, first, then):
    data = vectors(tmp_path, "x", 32, torch.float64)

    def plan(replicas):
        return write_plan(tmp_path, model_path("pippy-f64"), data, ["", "layer1"], 4 // replicas,
                          4, data_parallel=replicas, name=f"{replicas}.yaml", steps=4,
                          optimizer={"kind": "adamw", "learning_rate": 0.01})

    whole = execute_json(plan(first), "--save", tmp_path / "whole")["losses"]
    saved = tmp_path / "saved"
    begun = execute_json(plan(first), "--steps", 2, *kept(saved))["losses"]
    rest = execute_json(plan(then), *kept(saved))["losses"]
    assert begun + rest == pytest.approx(whole, rel=FLOAT64)
    found, expected = (tensors_of(folder / "step-4") for folder in (saved, tmp_path / "whole"))
    assert difference(found, expected) <= 1e-9  # AdamW divides by what is nearly nothing
