"""The fuzz targets over their kept corpus and a bounded number of new inputs; tools/fuzz runs them longer."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = sorted(path.name.removesuffix("_fuzz.cpp") for path in Path(__file__).parent.glob("*_fuzz.cpp"))
RUNS = 20000  # seconds of CPU each

pytestmark = pytest.mark.skipif(shutil.which("clang++") is None, reason="clang++ is missing: no libFuzzer")


@pytest.fixture(scope="module")
def programs():
    subprocess.run([ROOT / "tools/fuzz", "--build"], check=True)
    return ROOT / "build-fuzz/tests/fuzz"


def run(programs, target, folder, *arguments):
    return subprocess.run(
        [programs / f"fuzz-{target}", f"-dict={ROOT}/tests/fuzz/dictionaries/{target}.dict", f"-artifact_prefix={folder}/",
         "-seed=1", "-rss_limit_mb=1024", "-malloc_limit_mb=100", "-timeout=60", *arguments],
        cwd=folder, capture_output=True, text=True)


@pytest.mark.timeout(1800)  # the first one builds
@pytest.mark.parametrize("target", TARGETS)
def test_any_input_is_accepted_or_refused(programs, target, tmp_path):
    found = tmp_path / "found"
    found.mkdir()
    corpus = ROOT / "tests/fuzz/corpus" / target
    assert any(corpus.iterdir())
    done = run(programs, target, tmp_path, f"-runs={RUNS}", "-max_len=1024", found, corpus)
    assert done.returncode == 0, done.stderr[-8000:]
    assert f"Done {RUNS} runs" in done.stderr


def test_a_broken_promise_is_found(programs, tmp_path):
    """The first thing to check of a fuzzer: that it can fail. A limit of memory that is too low stands for a defect."""
    done = run(programs, "program", tmp_path, "-malloc_limit_mb=0", "-rss_limit_mb=1", "-runs=2000")
    assert done.returncode != 0
    assert "out-of-memory" in done.stderr
