"""tools/export_model.py never writes over what it reads, and checks its output before it begins."""

import os
import shutil
import subprocess
import sys

import pytest

from exporter import TOOL, export, refused, user_file  # noqa: F401 (fixtures)

BODY = "return self.linear(x)"


def run(*words, **how):
    return subprocess.run([sys.executable, str(TOOL), *map(str, words)], stderr=subprocess.PIPE,
                          text=True, timeout=300, **how)


def said(done, *words, code=2):
    assert done.returncode == code, done.stderr
    assert done.stderr.count("error:") == 1 and "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("link", [os.symlink, os.link, shutil.move],
                         ids=["symbolic", "hard", "itself"])
def test_the_models_own_file_is_not_written_over(user_file, tmp_path, link):
    source, target = user_file(BODY), tmp_path / "out.pt2"
    text = source.read_text()
    link(source, target)
    given = source if source.exists() else target
    said(run(given, "-o", target), str(given), "-o " + str(target), "is the same file")
    assert target.read_text() == text


@pytest.mark.parametrize("output, why", [
    ("", "an empty path"), ("none.py/x.pt2", "cannot be written: Not a directory"),
    ("/proc/x.pt2", "cannot be written"), ("folder.pt2", "is a folder"),
])
def test_an_output_that_cannot_be_written_is_found_before_the_model_is_built(tmp_path, output, why):
    (tmp_path / "none.py").write_text("raise RuntimeError('it was loaded')\n")
    (tmp_path / "folder.pt2").mkdir()
    said(run("none.py", "-o", output, cwd=tmp_path), why)


@pytest.mark.parametrize("source, why", [
    ("", "an empty path"), ("folder", "is a folder"), ("model.pt2", "exported already")])
def test_what_is_no_python_file_is_refused_with_what_it_is(tmp_path, source, why):
    (tmp_path / "folder").mkdir()
    (tmp_path / "model.pt2").write_bytes(b"PK\x03\x04")
    said(run(source, "-o", "out.pt2", cwd=tmp_path), why, "a Python file that defines model()")


def test_a_symbolic_link_is_written_through(export, user_file, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "out.pt2").symlink_to("sub/real.pt2")
    assert export(user_file(BODY)).code == 0
    assert (tmp_path / "out.pt2").is_symlink()
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["real.pt2"]


def test_a_full_device_is_told_as_the_reason_and_stays_one(user_file, tmp_path):
    (tmp_path / "full.pt2").symlink_to("/dev/full")
    said(run(user_file(BODY), "-o", tmp_path / "full.pt2"), "No space left on device")
    assert (tmp_path / "full.pt2").is_char_device()


def test_a_full_disk_is_told_as_the_reason_and_nothing_is_left(user_file, tmp_path, mount_disk):
    disk = mount_disk(tmp_path / "disk", "256k")
    path = user_file(BODY, "self.large = nn.Linear(400, 400)")
    said(run(path, "-o", disk / "out.pt2"), "cannot be written: No space left on device")
    assert list(disk.iterdir()) == []


def test_a_full_standard_output_is_a_failure(user_file, tmp_path):
    with open("/dev/full", "w") as full:
        done = run(user_file(BODY), "-o", tmp_path / "out.pt2", stdout=full)
    said(done, "standard output cannot be written: No space left on device", code=1)


def test_the_bytes_do_not_depend_on_the_name(export, user_file):
    path = user_file(BODY)
    one, other = export(path, output="one.pt2"), export(path, output="other.pt2")
    assert one.path.read_bytes() == other.path.read_bytes()
