"""Where bfloat16 traps, workers get a limit of oneDNN's instructions; shown by workers that are
scripts."""

import os
import shutil
import subprocess

import pytest

from pipelines import (BUILD, clean_environment, model_path, needs_backend, torch, vectors,
                       write_plan)

pytestmark = needs_backend  # plans are written for its models

# Dies of SIGILL unless the limit is one that works, and says what limits it was started with.
WORKER = """#!/usr/bin/env python3
import json, os, signal, sys
task = json.loads(sys.stdin.readline())
limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "none")
with open({calls!r}, "a") as calls:
    print(task["command"], limit, file=calls)
if limit not in {works!r}:
    os.kill(os.getpid(), signal.SIGILL)
if task["command"] != "multiply_bf16":
    print(json.dumps(dict(event="error", kind="input", rank=0, lost=-1, step=-1, action="",
                          message="here")), flush=True)
    sys.exit(2)
"""
AMX = "this machine traps in AMX: bf16 uses AVX-512 (ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16)"


@pytest.fixture
def run(tmp_path):
    """Runs `penstock execute` of a model whose workers are that script; returns messages and
    calls."""
    programs, calls = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    shutil.copy(BUILD / "penstock", programs)

    def execute(model, works, **environment):
        worker = programs / "penstock-worker"
        worker.write_text(WORKER.format(calls=str(calls), works=works))
        worker.chmod(0o755)
        calls.unlink(missing_ok=True)
        inherited = {key: value for key, value in clean_environment().items()
                     if key != "ONEDNN_MAX_CPU_ISA"}
        done = subprocess.run([programs / "penstock", "execute", plan_of(model, tmp_path)],
                              capture_output=True, text=True, timeout=120,
                              env={**inherited, "XDG_CACHE_HOME": str(tmp_path / "cache"),
                                   **environment})
        return done.stderr, calls.read_text().splitlines()
    return execute


def plan_of(model, folder):
    data = (model_path("llama").with_name("llama.data.safetensors") if model.startswith("llama")
            else vectors(folder, "x", 512, torch.float32))
    return write_plan(folder, model_path(model), data, [""], 1, 4)


def test_a_trap_in_amx_limits_the_workers_and_is_said(run):
    message, calls = run("llama-bf16", ["AVX512_CORE_FP16", "AVX512_CORE", "AVX2"])
    assert AMX in message
    assert calls == ["multiply_bf16 ALL", "multiply_bf16 AVX512_CORE_FP16",
                     "execute AVX512_CORE_FP16"]
    message, calls = run("llama-bf16", ["AVX512_CORE_FP16"])
    assert AMX in message and calls == ["execute AVX512_CORE_FP16"]  # once a boot


def test_where_nothing_traps_nothing_is_limited(run):
    message, calls = run("llama-bf16", ["ALL", "none"])
    assert "traps" not in message and calls == ["multiply_bf16 ALL", "execute none"]


def test_a_model_without_bf16_is_not_asked_for(run):
    assert run("pippy", ["none"])[1] == ["execute none"]


def test_the_users_limit_is_kept_and_a_worker_that_dies_of_it_names_the_variable(run):
    message, calls = run("llama-bf16", [], ONEDNN_MAX_CPU_ISA="AVX512_CORE_AMX")
    assert calls == ["execute AVX512_CORE_AMX"]
    assert "(SIGILL)" in message and "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16" in message


def test_where_no_limit_helps_the_run_tells_what_is_wrong(run):
    message, calls = run("llama-bf16", [])
    assert len(calls) == 5 and calls[-1] == "execute none"
    assert "(SIGILL)" in message


def test_a_real_worker_multiplies(tmp_path):
    environment = {**clean_environment(), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([BUILD / "penstock", "execute", plan_of("llama-bf16", tmp_path)],
                   capture_output=True, timeout=300,
                   env={key: value for key, value in environment.items()
                        if key != "ONEDNN_MAX_CPU_ISA"})
    answer, = os.listdir(tmp_path / "penstock")
    assert (tmp_path / "penstock" / answer).read_text() in ("ALL\n", "AVX512_CORE_FP16\n",
                                                            "AVX512_CORE\n", "AVX2\n")
