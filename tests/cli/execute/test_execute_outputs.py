"""Checkpoints of two runs are never mixed up, and a full disk leaves no half of one."""


import pytest

from pipelines import any_device, execute, execute_json, good_plan, needs_backend

pytestmark = needs_backend


def steps_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_run_does_not_save_below_an_older_runs_later_step(tmp_path):
    plan, saved = good_plan(tmp_path), tmp_path / "saved"
    execute_json(plan, "--steps", 3, "--save", saved)
    for options, step in ((["--steps", 2], 2), (["--steps", 5, "--save-every", 1], 1)):
        done = execute(plan, "--save", saved, *options)
        assert done.returncode == 2 and done.stdout == ""
        for text in (str(saved), "step 3", f"step {step}", "--resume", "another folder", "remove"):
            assert text in done.stderr
        assert steps_in(saved) == ["step-3"]


def test_going_on_from_the_latest_step_saves_into_the_same_folder(tmp_path):
    plan, saved = good_plan(tmp_path), tmp_path / "saved"
    execute_json(plan, "--steps", 2, "--save", saved, "--save-every", 1)
    execute_json(plan, "--steps", 3, "--save", saved, "--resume", saved)
    assert steps_in(saved) == ["step-1", "step-2", "step-3"]


def test_going_on_from_an_earlier_step_does_not_save_below_the_later_ones(tmp_path):
    plan, saved = good_plan(tmp_path), tmp_path / "saved"
    execute_json(plan, "--steps", 3, "--save", saved, "--save-every", 1)
    done = execute(plan, "--steps", 2, "--save", saved, "--resume", saved / "step-1")
    assert done.returncode == 2 and "step 3, later than step 2" in done.stderr
    execute_json(plan, "--steps", 2, "--save", tmp_path / "other", "--resume", saved / "step-1")


def test_the_same_run_again_replaces_its_checkpoint(tmp_path):
    plan, saved = good_plan(tmp_path), tmp_path / "saved"
    for _ in range(2):
        execute_json(plan, "--steps", 1, "--save", saved)
    assert steps_in(saved) == ["step-1"]


@pytest.fixture
def small_disk(tmp_path, mount_disk):
    """1 MiB, less than the model's 4."""
    return mount_disk(tmp_path / "disk", "1m")


@pytest.mark.parametrize("flag, left", [("--save", ["c"]), ("--dump-gradients", [])])
def test_a_full_disk_is_told_as_the_reason_and_leaves_no_half(tmp_path, small_disk, flag, left):
    done = execute(good_plan(tmp_path), "--steps", 1, flag, small_disk / "c")
    assert done.returncode == 2
    assert "cannot be written: No space left on device" in done.stderr
    assert "Success" not in done.stderr and "in progress" not in done.stderr
    assert [path.name for path in small_disk.rglob("*")] == left


def test_a_full_disk_is_told_where_other_ranks_have_parts_of_the_state(tmp_path, small_disk):
    """Nobody waits for the rank that writes, nor does the plan's next run for a lock or a rest."""
    plan = good_plan(tmp_path, data_parallel=2, optimizer_state="sharded",
                     optimizer={"kind": "adamw", "learning_rate": 0.01})
    for _ in range(2):
        done = execute(plan, "--steps", 1, "--save", small_disk / "c", timeout=100)
        assert done.returncode == 2
        assert "cannot be written: No space left on device" in done.stderr
        assert "Success" not in done.stderr and "in progress" not in done.stderr
        assert [path.name for path in small_disk.rglob("*")] == ["c"]
    execute_json(plan, "--steps", 1, "--save", tmp_path / "enough")


@pytest.mark.parametrize("flags", [["--dump-gradients"], ["--forward-only", "--output"]])
def test_tensors_do_not_go_to_standard_output_which_has_the_report(tmp_path, flags,
                                                                     standard_output):
    done = execute(good_plan(tmp_path), *flags, standard_output)
    assert done.returncode == 2
    assert f"{flags[-1]}: {standard_output} is standard output" in done.stderr


def test_the_report_that_cannot_be_printed_is_a_failure(tmp_path):
    plan = good_plan(tmp_path)
    with open("/dev/full", "w") as full:
        done = execute(plan, "--steps", 1, "--save", tmp_path / "c", stdout=full)
    assert done.returncode == 1
    assert "standard output cannot be written: No space left on device" in done.stderr
    assert steps_in(tmp_path / "c") == ["step-1"]  # what was trained is kept


@any_device
def test_a_run_names_what_it_wrote_and_what_takes_it(tmp_path):
    plan, trace, saved = good_plan(tmp_path), tmp_path / "trace.json", tmp_path / "saved"
    done = execute(plan, "--steps", 1, "--trace", trace, "--save", saved)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        f"written    {trace}, {saved}\n"
        f"next       penstock simulate {plan} --trace predicted.json\n"
        f"           penstock compare predicted.json {trace}\n"
        f"           penstock execute {plan} --resume {saved} --save {saved}\n"
        f"           penstock export {plan} --format state-dict --checkpoint {saved} "
        "-o weights.safetensors\n")
    assert "next" not in execute(plan, "--steps", 1).stdout
