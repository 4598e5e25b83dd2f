"""oneDNN is limited where bfloat16 traps, which a probe that is told to trap shows on any
processor."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "python"))

from penstock.exporter import cpu

# Dies of SIGILL unless the limit is one of those; counts its calls.
TRAPS = """import os, signal, sys
open(sys.argv[1], "a").write(os.environ["ONEDNN_MAX_CPU_ISA"] + " ")
if os.environ["ONEDNN_MAX_CPU_ISA"] not in sys.argv[2:]:
    os.kill(os.getpid(), signal.SIGILL)
"""


@pytest.fixture(autouse=True)
def a_boot_without_an_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(cpu.VARIABLE, raising=False)


@pytest.fixture
def probe(tmp_path):
    return lambda *works: (sys.executable, "-c", TRAPS, str(tmp_path / "calls"), *works)


def calls(tmp_path):
    return (tmp_path / "calls").read_text().split() if (tmp_path / "calls").exists() else []


def test_a_processor_that_traps_in_amx_uses_avx512(probe):
    note = cpu.limit_onednn(probe("AVX512_CORE_FP16", "AVX512_CORE", "AVX2"))
    assert note.startswith("this machine traps in AMX: bf16 uses AVX-512 ")
    assert os.environ[cpu.VARIABLE] == "AVX512_CORE_FP16"


def test_the_mildest_limit_that_helps_is_taken(probe):
    cpu.limit_onednn(probe("AVX2"))
    assert os.environ[cpu.VARIABLE] == "AVX2"


@pytest.mark.parametrize("works", [["ALL"], []])
def test_nothing_is_limited_where_nothing_traps_or_no_limit_helps(probe, works):
    assert cpu.limit_onednn(probe(*works)) is None
    assert cpu.VARIABLE not in os.environ


def test_it_is_tried_once_a_boot(probe, tmp_path, monkeypatch):
    first = cpu.limit_onednn(probe("AVX512_CORE_FP16"))
    monkeypatch.delenv(cpu.VARIABLE)
    assert cpu.limit_onednn(probe()) == first
    assert calls(tmp_path) == ["ALL", "AVX512_CORE_FP16"]


def test_where_no_limit_helps_the_next_process_tries_again(probe):
    cpu.limit_onednn(probe())
    assert cpu.limit_onednn(probe("AVX2"))


def test_a_damaged_answer_is_asked_for_again(probe):
    cpu.cache().parent.mkdir(parents=True)
    cpu.cache().write_text("no such limit")
    assert cpu.limit_onednn(probe("AVX512_CORE_FP16"))


def test_a_cache_that_cannot_be_written_is_done_without(probe, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cpu.limit_onednn(probe("AVX512_CORE_FP16"))


def test_the_user_has_the_last_word(probe, tmp_path, monkeypatch):
    monkeypatch.setenv(cpu.VARIABLE, "AVX512_CORE_BF16")
    assert cpu.limit_onednn(probe()) is None
    assert os.environ[cpu.VARIABLE] == "AVX512_CORE_BF16" and calls(tmp_path) == []


def test_this_machine_multiplies_in_bf16_within_the_limit_that_is_found():
    pytest.importorskip("torch")
    cpu.limit_onednn()
    assert subprocess.run([sys.executable, "-c", cpu.PRODUCT], timeout=120).returncode == 0


def test_the_limits_are_those_of_penstock():
    source = (ROOT / "cli" / "workers" / "onednn_isa.cpp").read_text()
    assert re.findall(r'\{+"(\w+)", "([^"]+)", "([^"]+)"\}', source) == cpu.LIMITS


def test_the_exporter_says_it_where_the_model_computes_in_bf16(tmp_path):
    pytest.importorskip("torch")
    cpu.remember("AVX512_CORE_FP16")
    for dtype, told in (("bfloat16", True), ("float32", False)):
        done = subprocess.run([sys.executable, ROOT / "tools" / "export_model.py",
                               ROOT / "configs/models/pippy.py", "--dtype", dtype, "-o",
                               tmp_path / "model.pt2"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert ("this machine traps in AMX: bf16 uses AVX-512" in done.stderr) == told
