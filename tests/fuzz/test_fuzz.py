"""The fuzz targets over their kept corpus and a bounded number of new inputs; tools/fuzz runs them
longer."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpus

ROOT = Path(__file__).parents[2]
TARGETS = sorted(path.name.removesuffix("_fuzz.cpp")
                 for path in Path(__file__).parent.glob("*_fuzz.cpp"))
HANGS_S = 1700  # less than a test may take
RUNS, LENGTH = 20000, 1024  # seconds of CPU each
MORE = {"pt2": (2000, 1 << 15)}  # its inputs are whole models

pytestmark = pytest.mark.skipif(shutil.which("clang++") is None,
                                reason="clang++ is missing: no libFuzzer")


@pytest.fixture(scope="module")
def programs():
    subprocess.run([ROOT / "tools/fuzz", "--build"], check=True)
    return ROOT / "build-fuzz/tests/fuzz"


def run(programs, target, folder, *arguments):
    """No time limit for an input: a clock decides nothing, a target that hangs ends with the test.

    Another program starts the target, since Linux keeps the peak memory of the process that forked
    over exec, and libFuzzer holds that to its limit: Python with torch and models may be above it.
    """
    return subprocess.run(
        ["timeout", "--kill-after=1", str(HANGS_S), programs / f"fuzz-{target}",
         f"-artifact_prefix={folder}/", "-seed=1", "-rss_limit_mb=1024", "-malloc_limit_mb=100",
         "-timeout=0", *arguments],
        cwd=folder, capture_output=True, text=True, errors="replace")


@pytest.mark.timeout(1800)  # the first one builds
@pytest.mark.parametrize("target", TARGETS)
def test_any_input_is_accepted_or_refused(programs, target, tmp_path):
    found, kept = tmp_path / "found", tmp_path / "kept"
    found.mkdir()
    corpus.unpack(ROOT / f"tests/fuzz/corpus/{target}.zip", kept)
    assert any(kept.iterdir())
    words = ROOT / f"tests/fuzz/dictionaries/{target}.dict"
    runs, length = MORE.get(target, (RUNS, LENGTH))
    done = run(programs, target, tmp_path, f"-dict={words}", f"-runs={runs}", f"-max_len={length}",
               found, kept)
    assert done.returncode == 0, done.stderr[-8000:]
    assert f"Done {runs} runs" in done.stderr


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("defect, report", [
    ("exception", "not an InputError"), ("promise", "broken promise: no input says so"),
    ("overflow", "signed integer overflow"), ("beyond", "heap-buffer-overflow"),
    ("memory", "out-of-memory")])
def test_a_defect_of_each_kind_is_found(programs, tmp_path, defect, report):
    (tmp_path / "input").write_text(defect)
    done = run(programs, "planted", tmp_path, tmp_path / "input")
    assert done.returncode != 0
    assert report in done.stderr
    (tmp_path / "input").write_text("none of them")
    assert run(programs, "planted", tmp_path, tmp_path / "input").returncode == 0
