"""The archives of kept inputs: what goes in comes out, and the same inputs make the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import corpus

TARGETS = sorted(path.name.removesuffix("_fuzz.cpp") for path in FOLDER.glob("*_fuzz.cpp"))
INPUTS = [b"", b"0F0", b"\0\xff" * 3000]


def write_files(folder, contents):
    folder.mkdir()
    for number, content in enumerate(contents):
        (folder / f"input {number}").write_bytes(content)
        os.utime(folder / f"input {number}", (number, number))
    return folder


def contents(folder):
    return sorted(path.read_bytes() for path in folder.iterdir())


def test_what_is_packed_is_unpacked(tmp_path):
    archive = tmp_path / "new" / "target.zip"
    corpus.pack(archive, [write_files(tmp_path / "in", INPUTS)])
    corpus.unpack(archive, tmp_path / "out")
    assert contents(tmp_path / "out") == sorted(INPUTS)


def test_the_same_inputs_make_the_same_bytes(tmp_path):
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    corpus.pack(first, [write_files(tmp_path / "in", INPUTS)])
    corpus.pack(second, [write_files(tmp_path / "reversed", INPUTS[::-1]), tmp_path / "in"])
    assert first.read_bytes() == second.read_bytes()


def test_an_input_is_added_once(tmp_path):
    archive, addition = tmp_path / "target.zip", tmp_path / "crash"
    addition.write_bytes(b"found")
    corpus.pack(archive, [write_files(tmp_path / "in", INPUTS)])
    for _ in range(2):
        subprocess.run([sys.executable, FOLDER / "corpus.py", "add", archive, addition], check=True)
    corpus.unpack(archive, tmp_path / "out")
    assert contents(tmp_path / "out") == sorted([*INPUTS, b"found"])


@pytest.mark.parametrize("target", TARGETS)
def test_the_kept_archive_is_what_its_inputs_make(target, tmp_path):
    archive = FOLDER / "corpus" / f"{target}.zip"
    corpus.unpack(archive, tmp_path / "inputs")
    assert contents(tmp_path / "inputs")
    corpus.pack(tmp_path / "again.zip", [tmp_path / "inputs"])
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()
