"""tools/test --gpu: nothing that went wrong is lost. The build, Python, torch and the bench are
stand-ins."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Stands for .venv/bin/python, which also runs Meson: only the sum of the results is the real one.
PYTHON = """#!/bin/bash
case "$*" in
  "-c "*torch.cuda*) exit $TORCH ;;
  *"/meson test -C "*" backend")
    echo "meson $GTEST_FILTER" >>$NOTES
    mkdir -p "$LOGS"
    : >"$LOGS/testlog.json" ;;
  "-m pytest "*)
    echo "pytest $*" >>$NOTES
    for word; do case $word in --junitxml=*) echo "$REPORT" >"${word#*=}" ;; esac; done
    exit $PYTEST ;;
  "bench/gpu.py "*) echo "bench $*" >>$NOTES; echo "what the bench said"; exit $BENCH ;;
  */sum_tests.py*) exec "$REAL" "$@" ;;
esac
"""
CASE = ('<testsuites><testsuite><testcase classname="t" '
        'name="ok">{}</testcase></testsuite></testsuites>')


@pytest.fixture
def tools(tmp_path):
    """Runs a copy of tools/test; returns its exit status, its lines, and what was run."""
    for folder in ("tools", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("test", "limited", "sum_tests.py"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
    (tmp_path / "tools" / "build").write_text("#!/bin/bash\n")
    (tmp_path / ".venv" / "bin" / "python").write_text(PYTHON)
    for path in ("tools/build", ".venv/bin/python"):
        (tmp_path / path).chmod(0o755)

    def run(*arguments, torch=0, tests=0, bench=0):
        notes = tmp_path / "notes"
        notes.write_text("")
        environment = {"PATH": "/usr/bin:/bin", "REAL": sys.executable, "NOTES": str(notes),
                       "TORCH": str(torch), "LOGS": str(tmp_path / "build" / "meson-logs"),
                       "PYTEST": str(tests), "BENCH": str(bench),
                       "REPORT": CASE.format("<failure>no</failure>" if tests else "")}
        done = subprocess.run([tmp_path / "tools" / "test", "--gpu", *arguments], env=environment,
                              capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines(), notes.read_text().splitlines()

    return run


def test_tests_and_bench_that_pass_end_with_0(tools):
    code, lines, ran = tools()
    assert (code, lines[-1]) == (0, "1 passed, 0 failed, 0 skipped")
    assert [line.split()[0] for line in ran] == ["meson", "pytest", "bench"]
    assert ran[0] == "meson StageGradients.**:*/Models.**:*/EveryCut.**:*/RandomNetworks.**:"
    assert "-m gpu or any_device --maxfail=5" in ran[1]


def test_a_failed_bench_is_a_failure_with_its_output_above(tools):
    code, lines, _ = tools(bench=1)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")
    assert lines.index("what the bench said") < lines.index("FAILED bench/gpu.py")


def test_a_torch_that_finds_no_gpu_is_a_failure_and_not_a_bench_left_out(tools):
    for pattern in ((), ("cuda",)):
        code, lines, ran = tools(*pattern, torch=1)
        assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")
        assert "FAILED torch.cuda.is_available()" in lines and len(ran) == 2


def test_the_bench_waits_until_the_tests_pass_and_for_a_run_without_pattern(tools):
    code, lines, ran = tools(tests=1)
    assert (code, lines[-1], len(ran)) == (1, "0 passed, 1 failed, 0 skipped", 2)
    code, _, ran = tools("cuda")
    assert (code, len(ran)) == (0, 2)
    assert "Models.*cuda*:" in ran[0] and "-k cuda" in ran[1]
