"""Outputs: never one of the inputs, checked before anything runs, written whole and where they
point."""

import os
import subprocess
import threading

import pytest

from handing import PENSTOCK, STUDY, contents, penstock, refused, succeeds

ESTIMATE = ["profile", "job.yaml", "--device", "estimate", "--spec", "device.yaml"]
PLAN = ["plan", "profile.json", "--cluster", "cluster.yaml"]
EXPORT = ["export", "plan.yaml", "--format", "torch-csv"]


@pytest.mark.parametrize("words, both", [
    ([*PLAN, "-o", "profile.json"], ["-o profile.json", "PROFILE.json profile.json"]),
    ([*PLAN, "-o", "./cluster.yaml"], ["-o ./cluster.yaml", "--cluster cluster.yaml"]),
    ([*PLAN, "-o", "model.pt2"], ["-o model.pt2", "`model` in profile.json"]),
    ([*PLAN, "-o", "data.safetensors"], ["-o data.safetensors", "`data` in profile.json"]),
    ([*PLAN, "-o", "x.yaml", "--html", "profile.json"], ["--html profile.json", "PROFILE.json"]),
    ([*ESTIMATE, "-o", "job.yaml"], ["-o job.yaml", "JOB.yaml job.yaml"]),
    ([*ESTIMATE, "-o", "model.pt2"], ["-o model.pt2", "`model` in job.yaml"]),
    ([*ESTIMATE, "-o", "data.safetensors"], ["-o data.safetensors", "`data` in job.yaml"]),
    ([*ESTIMATE, "-o", "device.yaml"], ["-o device.yaml", "--spec device.yaml"]),
    ([*ESTIMATE, "--fit", "profile.json", "-o", "profile.json"],
     ["-o profile.json", "--fit profile.json"]),
    (["profile", "job.yaml", "-o", "model.pt2"], ["-o model.pt2", "`model` in job.yaml"]),
    ([*EXPORT, "-o", "plan.yaml"], ["-o plan.yaml", "PLAN.yaml plan.yaml"]),
    ([*EXPORT, "-o", "profile.json"], ["-o profile.json", "`profile` in plan.yaml"]),
    ([*EXPORT, "-o", "cluster.yaml"], ["-o cluster.yaml", "`cluster` in plan.yaml"]),
    ([*EXPORT, "-o", "model.pt2"], ["-o model.pt2", "`model` in plan.yaml"]),
    (["simulate", "plan.yaml", "--trace", "plan.yaml"], ["--trace plan.yaml", "PLAN.yaml"]),
    (["simulate", "plan.yaml", "--html", "plan.yaml"], ["--html plan.yaml", "PLAN.yaml"]),
    (["simulate", "--program", "program.csv", "--forward", "1ms", "--backward", "1ms", "--trace",
      "program.csv"], ["--trace program.csv", "--program program.csv"]),
    (["execute", "plan.yaml", "--trace", "data.safetensors"],
     ["--trace data.safetensors", "`data` in plan.yaml"]),
    (["execute", "plan.yaml", "--dump-gradients", "model.pt2"],
     ["--dump-gradients model.pt2", "`model` in plan.yaml"]),
    (["execute", "plan.yaml", "--forward-only", "--output", "plan.yaml"],
     ["--output plan.yaml", "PLAN.yaml plan.yaml"]),
])
def test_an_output_that_is_read_is_refused_with_both_names(folder, words, both):
    refused(folder, *words, says=both)


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_link_to_an_input_is_that_input(folder, link):
    link(folder / "profile.json", folder / "other.json")
    refused(folder, *PLAN, "-o", "other.json", says=["-o other.json", "PROFILE.json profile.json"])
    link(folder / "model.pt2", folder / "other.yaml")
    refused(folder, *PLAN, "-o", "other.yaml", says=["-o other.yaml", "`model` in profile.json"])


@pytest.mark.parametrize("words, both", [
    ([*STUDY, "--trace", "x", "--html", "x"], ["--html x", "--trace x"]),
    ([*STUDY, "--trace", "x", "--html", "saved/../x"], ["--html saved/../x", "--trace x"]),
    ([*PLAN, "-o", "x", "--html", "./x"], ["-o x", "--html ./x"]),
    (["execute", "plan.yaml", "--trace", "x", "--dump-gradients", "x"],
     ["--trace x", "--dump-gradients x"]),
    (["execute", "plan.yaml", "--trace", "x", "--save", "x"], ["--trace x", "--save x"]),
])
def test_two_outputs_that_are_one_file_are_refused(folder, words, both):
    refused(folder, *words, says=[*both, "is the same file as"])


def test_two_outputs_by_two_links_are_one_file(folder):
    (folder / "a").symlink_to("x")
    (folder / "b").symlink_to("x")
    refused(folder, *STUDY, "--trace", "a", "--html", "b", says=["--html b", "--trace a"])


def test_the_schedule_beside_an_export_never_replaces_the_plans_program(folder):
    plan = folder / "plan.yaml"
    plan.write_text(plan.read_text().replace("schedule: 1f1b", "program: program.csv"))
    refused(folder, "export", "plan.yaml", "--format", "torchtitan", "-o", "program.toml",
            says=["program.csv", "`program` in plan.yaml"])


def test_nothing_is_written_into_a_checkpoint(folder):
    for words in ([*STUDY, "--trace", "saved/step-50/trace.json"],
                  ["export", "plan.yaml", "--format", "state-dict", "--checkpoint", "saved", "-o",
                   "saved/step-50/stage-0.safetensors"],
                  ["execute", "plan.yaml", "--save", "saved/step-50"]):
        refused(folder, *words, says=["saved/step-50 is a checkpoint"])


@pytest.mark.parametrize("flag, words", [
    ("--trace", STUDY), ("--html", STUDY), ("-o", PLAN), ("--html", [*PLAN, "-o", "p.yaml"]),
    ("-o", ESTIMATE), ("-o", ["profile", "job.yaml"]), ("-o", ["profile", "--link"]),
    ("-o", EXPORT), ("-o", ["export", "plan.yaml", "--format", "state-dict"]),
    ("--trace", ["execute", "plan.yaml"]), ("--dump-gradients", ["execute", "plan.yaml"]),
    ("--save", ["execute", "plan.yaml"]),
    ("--output", ["execute", "plan.yaml", "--forward-only"]),
])
def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(folder, flag, words):
    (folder / "circle").symlink_to("circle")
    for path, why in (("none/x", "none is not a folder"),
                      ("job.yaml/x", "job.yaml is not a folder"), ("circle", "circle"),
                      ("/proc/x", "cannot be written"),
                      ("job.yaml" if flag == "--save" else "saved", "folder")):
        assert path in refused(folder, *words, flag, path, says=[why])


@pytest.mark.parametrize("words", [
    ["plan", "", "-o", "x"], [*PLAN, "-o", ""], [*PLAN, "-o", "x", "--html", ""],
    ["plan", "profile.json", "--cluster", "", "-o", "x"],
    ["profile", "", "-o", "x"], [*ESTIMATE, "-o", ""], [*ESTIMATE, "--fit", "", "-o", "x"],
    ["profile", "job.yaml", "--device", "estimate", "--spec", "", "-o", "x"],
    ["simulate", ""], [*STUDY, "--trace", ""], [*STUDY, "--html", ""], [*STUDY, "--program", ""],
    ["execute", ""], ["execute", "plan.yaml", "--resume", ""],
    ["execute", "plan.yaml", "--save", ""], ["execute", "plan.yaml", "--trace", ""],
    ["execute", "plan.yaml", "--dump-gradients", ""],
    ["execute", "plan.yaml", "--forward-only", "--output", ""],
    ["execute", "plan.yaml", "--save="], ["execute", "--resume=", "plan.yaml"],
    ["compare", "", "trace.json"], ["compare", "trace.json", ""],
    ["export", "", "--format", "torch-csv", "-o", "x"], [*EXPORT, "-o", ""],
    ["export", "plan.yaml", "--format", "state-dict", "--checkpoint", "", "-o", "x"],
    ["show", ""], ["show", "model.pt2", "--profile", ""],
])
def test_an_empty_path_is_a_mistake(folder, words):
    refused(folder, *words, says=["an empty", "is a variable not set?"])


@pytest.mark.parametrize("words, flag, other", [
    (["plan", "profile.json", "--whole-modules", "--fastest", "-o", "x"], "--whole-modules",
     "--fastest"),
    (["plan", "profile.json", "-o", "--verbose"], "-o", "--verbose"),
    (["simulate", "plan.yaml", "--trace", "--html", "x"], "--trace", "--html")])
def test_a_flag_in_the_place_of_a_value_is_a_mistake(folder, words, flag, other):
    refused(folder, *words, says=[f"{flag}: no value, but another flag: {other}\n"])


def test_a_symbolic_link_is_written_through(folder):
    for target in (folder / "sub" / "new.json", folder / "sub" / "old.json"):
        target.parent.mkdir(exist_ok=True)
        (folder / "link.json").unlink(missing_ok=True)
        (folder / "link.json").symlink_to(target)
        succeeds(folder, *STUDY, "--trace", "link.json")
        assert (folder / "link.json").is_symlink() and target.read_text().startswith("{")
    assert sorted(path.name for path in (folder / "sub").iterdir()) == ["new.json", "old.json"]


def test_a_profile_through_a_link_names_its_job_as_seen_from_the_link(folder):
    (folder / "sub").mkdir()
    (folder / "link.json").symlink_to("sub/profile.json")
    succeeds(folder, *ESTIMATE, "-o", "link.json")
    succeeds(folder, "plan", "link.json", "-o", "x.yaml")


def test_a_pipe_is_written_to_and_stays_one(folder):
    os.mkfifo(folder / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((folder / "pipe").read_bytes()))
    reader.start()
    succeeds(folder, *STUDY, "--trace", "pipe")
    reader.join()
    assert (folder / "pipe").is_fifo() and read[0].startswith(b"{")


@pytest.mark.parametrize("words, flag", [(STUDY, "--trace"), (STUDY, "--html"), (PLAN, "-o"),
                                         (ESTIMATE, "-o"), (EXPORT, "-o"),
                                         (["export", "plan.yaml", "--format", "state-dict"], "-o")])
def test_a_device_is_written_to_and_stays_one(folder, words, flag):
    before = contents(folder)
    (folder / "full").symlink_to("/dev/full")
    (folder / "null").symlink_to("/dev/null")
    full, null = penstock(folder, *words, flag, "full"), penstock(folder, *words, flag, "null")
    assert full.returncode == 2 and "full: cannot be written: No space left" in full.stderr
    assert null.returncode == 0, null.stderr
    assert (folder / "full").is_char_device() and (folder / "null").is_char_device()
    (folder / "full").unlink()
    (folder / "null").unlink()
    assert contents(folder) == before


def test_a_plan_on_standard_output_can_be_read_anywhere(folder, standard_output):
    text = succeeds(folder, *PLAN, "-o", standard_output, "--html", "/dev/null").stdout
    (folder / "sub").mkdir()
    plan = text[text.index("penstock: plan"):text.rindex(f"written    {standard_output}")]
    (folder / "sub" / "plan.yaml").write_text(plan)
    succeeds(folder, "simulate", "sub/plan.yaml")


def test_a_file_that_standard_output_goes_to_is_not_replaced(folder, standard_output):
    with open(folder / "all.txt", "w") as file:
        subprocess.run([str(PENSTOCK), *map(str, STUDY), "--trace", standard_output], cwd=folder,
                       stdout=file, check=True, timeout=60)
    text = (folder / "all.txt").read_text()
    assert text.startswith("{") and "gpipe: 2 ranks" in text


@pytest.mark.parametrize("words", [STUDY, [*STUDY, "--json"], ["--help"], ["--version"],
                                   ["help", "plan"], ["show", "model.pt2"], ["show", "plan.yaml"],
                                   ["compare", "trace.json", "trace.json"]])
def test_a_full_standard_output_is_a_failure(folder, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(PENSTOCK), *map(str, words)], cwd=folder, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "penstock: standard output cannot be written: No space left on device\n"


@pytest.fixture
def small_disk(folder, mount_disk):
    """64 KiB."""
    return mount_disk(folder / "disk", "64k")


LARGE = [*STUDY[:6], 400, *STUDY[7:]]  # 400 microbatches


@pytest.mark.parametrize("words", [
    [*LARGE, "--trace", "disk/x"], [*LARGE, "--html", "disk/x"],
    ["export", "plan.yaml", "--format", "state-dict", "-o", "disk/x"]])
def test_a_full_disk_is_told_as_the_reason_and_nothing_is_left(folder, small_disk, words):
    done = penstock(folder, *words)
    assert done.returncode == 2
    assert done.stderr == ("penstock: disk/x: cannot be written: No space left on device\n"
                           "  Make room there, or write elsewhere.\n")
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_is_read_only_is_found_before_anything_runs(folder, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, timeout=60)
    for words in ([*STUDY, "--trace", "disk/x"], ["execute", "plan.yaml", "--save", "disk"],
                  ["execute", "plan.yaml", "--save", "disk/x"]):
        refused(folder, *words, says=["disk", "Read-only file system"])


def test_a_folder_that_is_gone_is_told(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(f"rmdir ../gone; {PENSTOCK} {' '.join(map(str, STUDY))} --trace x",
                          shell=True, cwd=gone, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "x: cannot be written: No such file" in done.stderr
