"""tools/sum_tests.py: the last line counts every test once, and nothing that went wrong is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "sum_tests.py"
GTEST = """<?xml version="1.0"?>
<testsuites tests="4" failures="1"><testsuite name="Cuts" tests="4">
  <testcase name="Good" status="run" result="completed" classname="Cuts" />
  <testcase name="Bad" status="run" result="completed" classname="Cuts">
    <failure message="short" type=""><![CDATA[cut_test.cpp:7 Expected 3, got 4]]></failure>
  </testcase>
  <testcase name="Later" status="run" result="skipped" classname="Cuts">
    <skipped message="no GPU" /></testcase>
  <testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="Cuts" />
</testsuite></testsuites>"""
PASSING = '<testsuites><testsuite><testcase classname="t" name="ok"/></testsuite></testsuites>'
EMPTY = "<testsuites><testsuite/></testsuites>"


@pytest.fixture
def total(tmp_path):
    """Runs the tool on programs [(name, result, report or None)] and a pytest report."""

    def run(programs=(), report=PASSING, status=0, log=True, failed=()):
        lines = []
        for name, result, xml in programs:
            lines.append(json.dumps({"name": f"suite / {name}", "result": result, "returncode": 11,
                                     "command": [f"/build dir/tests/{name}"]}))
            if xml is not None:
                (tmp_path / f"{name}.xml").write_text(xml)
        if log:
            (tmp_path / "testlog.json").write_text("\n".join(lines))
        if report is not None:
            (tmp_path / "pytest.xml").write_text(report)
        done = subprocess.run(
            [sys.executable, TOOL, "--meson-log", tmp_path / "testlog.json", "--gtest", tmp_path,
             "--pytest", tmp_path / "pytest.xml", "--pytest-status", str(status),
             *(word for name in failed for word in ("--failed", name))],
            capture_output=True, text=True)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    return run


def test_passed_failed_and_skipped_of_both_are_added(total):
    code, lines = total([("test-graph", "FAIL", GTEST), ("test-plan", "OK", PASSING)])
    assert code == 1
    assert lines[-1] == "3 passed, 1 failed, 2 skipped"
    assert "FAILED Cuts.Bad" in lines
    assert "    cut_test.cpp:7 Expected 3, got 4" in lines


def test_everything_passed_ends_with_0(total):
    assert total([("test-plan", "OK", PASSING)]) == (0, ["2 passed, 0 failed, 0 skipped"])


def test_a_crashed_program_without_report_is_a_failure(total):
    code, lines = total([("test-graph", "FAIL", None), ("test-plan", "OK", PASSING)])
    assert (code, lines[-1]) == (1, "2 passed, 1 failed, 0 skipped")
    assert "FAILED suite / test-graph" in lines


def test_a_program_that_crashed_after_its_tests_passed_is_a_failure(total):
    code, lines = total([("test-graph", "FAIL", PASSING)])
    assert (code, lines[-1]) == (1, "2 passed, 1 failed, 0 skipped")


@pytest.mark.parametrize("result", ["TIMEOUT", "ERROR", "INTERRUPT"])
def test_a_program_that_did_not_finish_is_a_failure(total, result):
    assert total([("test-graph", result, None)])[1][-1] == "1 passed, 1 failed, 0 skipped"


def test_a_truncated_report_is_a_failure(total):
    code, lines = total([("test-graph", "OK", GTEST[:200])])
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")


def test_a_failure_is_counted_once_although_meson_reports_it_too(total):
    assert total([("test-graph", "FAIL", GTEST)])[1][-1] == "2 passed, 1 failed, 2 skipped"


def test_a_program_that_skipped_itself_is_skipped(total):
    assert total([("test-gpu", "SKIP", None)])[1][-1] == "1 passed, 0 failed, 1 skipped"


def test_a_pytest_that_ended_early_is_a_failure(total):
    code, lines = total(report=None, status=139)
    assert (code, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")


def test_an_internal_error_of_pytest_is_a_failure_although_its_report_is_clean(total):
    assert total(status=3)[1][-1] == "1 passed, 1 failed, 0 skipped"


def test_a_missing_log_of_meson_is_a_failure(total):
    assert total(log=False)[1][-1] == "1 passed, 1 failed, 0 skipped"


def test_each_other_step_that_failed_is_named_and_counted(total):
    code, lines = total(failed=["bench/gpu.py", "torch.cuda.is_available()"])
    assert (code, lines[-1]) == (1, "1 passed, 2 failed, 0 skipped")
    assert {"FAILED bench/gpu.py", "FAILED torch.cuda.is_available()"} <= set(lines)


def test_no_test_at_all_is_no_success(total):
    code, lines = total(report=EMPTY, status=5)
    assert code == 1
    assert lines == ["no test ran", "0 passed, 0 failed, 0 skipped"]
