"""tools/export_model.py takes settings and options, and writes the same bytes for the same."""

import subprocess
import sys
import zipfile

import pytest
import torch

from exporter import (MODELS, ROOT, TOOL, export, refused,  # noqa: F401 (export is a fixture)
                      run_export)

SMALL = ["layers=2", "heads=2", "dim=16", "feedforward=32", "vocabulary=20", "sequence=6"]
TEXT = ["batch_first=true", "causal=true", "positions=true", "dropout=0"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return run_export(tmp_path_factory.mktemp("text"), "transformer", SMALL + TEXT)


def test_settings_reach_the_functions_that_take_them(export):
    facts = export("pippy", "width=12", "hidden=5", "batch=6").facts
    assert facts["example_batch"] == 6
    assert facts["settings"] == {"batch": 6, "width": 12, "hidden": 5, "narrow": 256, "classes": 10}


@pytest.mark.parametrize("setting, words", [
    ("widht=3", ["no setting 'widht'", "did you mean 'width'?"]),
    ("zzz=3", ["no setting 'zzz'", "it has"]),
    ("width=wide", ["'wide'", "whole number"]),
    ("width=1.5", ["'1.5'", "whole number"]),
    ("width=true", ["'true'", "whole number"]),
    ("width", ["NAME=VALUE"]),
])
def test_a_bad_setting_is_refused_with_the_cure(export, setting, words):
    refused(export("pippy", setting), *words)


def test_a_truth_value_has_to_be_one(export):
    refused(export("transformer", "causal=1"), "truth value")


def test_a_setting_given_twice_is_refused(export):
    refused(export("pippy", "width=3", "width=4"), "set twice")


def test_causal_without_batch_first_is_refused_with_the_reason(export):
    refused(export("transformer", *SMALL, "causal=true"), "causal=true needs batch_first=true")


def test_meta_exports_the_graph_without_weights(export, text):
    result = export("transformer", *SMALL, *TEXT, options=["--meta"])
    assert result.code == 0
    assert "were not checked" in result.messages
    facts = result.facts
    assert facts["meta"] is True and facts["batch_coupled"] is None
    assert result.targets() == text.targets()
    with zipfile.ZipFile(result.path) as archive:
        sizes = [i.file_size for i in archive.infolist() if "/data/weights/weight_" in i.filename]
    assert sizes and set(sizes) == {0}


def test_meta_does_not_hold_a_model_that_is_too_big(export):
    result = export("pippy", "hidden=100000000", "narrow=100000", options=["--meta"])  # 40 TB
    assert result.code == 0
    assert result.path.stat().st_size < 1_000_000


def test_static_fixes_the_batch_of_the_example(export):
    result = export("pippy", "width=8", "batch=1", options=["--static"])
    assert result.code == 0
    assert result.facts["static"] is True
    assert not result.program.range_constraints


def test_dtype_converts_parameters_and_inputs(export):
    for name in ("float64", "bfloat16"):
        result = export("iterative", "width=8", options=["--dtype", name])
        assert result.facts["dtype"] == name
        assert {p.dtype for p in result.program.parameters()} == {getattr(torch, name)}


def test_the_seed_decides_the_weights(export):
    first, second, other = [list(export("iterative", "width=8", options=["--seed", seed],
                                        output=f"{i}.pt2").program.parameters())[0]
                            for i, seed in enumerate(["5", "5", "6"])]
    assert torch.equal(first, second) and not torch.equal(first, other)


def test_two_runs_write_the_same_bytes(tmp_path):
    files = [tmp_path / folder / "model.pt2" for folder in ("a", "b")]
    runs = [subprocess.Popen([sys.executable, TOOL, MODELS / "iterative.py", "-o", file,
                              "--set", "width=8"]) for file in files]
    assert [run.wait() for run in runs] == [0, 0]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_file_tells_nothing_about_the_exporting_machine(text):
    graph = text.read("models/model.json").decode()
    assert str(ROOT) not in graph and "stack_trace" not in graph


def test_an_export_says_what_was_written_and_what_follows(export):
    result = export("iterative", "width=8")
    exported, written, show, job = result.report.splitlines()
    assert exported == ("exported   162 parameters in 4 tensors, 7 operators, "
                        f"{result.path.stat().st_size:,} bytes")
    assert written == f"written    {result.path}"
    assert show == f"next       penstock show {result.path}"
    assert "write a job that names it" in job and "penstock profile" in job
    # 8*8+8 + 8*10+10 = 162
