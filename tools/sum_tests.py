#!/usr/bin/env python3
"""Adds up what Meson's test programs and pytest reported, for tools/test.

The last line is `N passed, N failed, N skipped`, and every failed test is named above it. A test
program that crashed, was killed or ran out of time wrote no report, and counts as one failed test;
so does a pytest that ended before its tests did, and each other step that --failed names. The exit
status is 0 where at least one test passed and none failed, and 1 otherwise.
"""

import argparse
import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

MESON_GOOD = {"OK", "EXPECTEDFAIL"}
PYTEST_FINISHED = {0, 1, 5}  # all passed, some failed, none selected


@dataclass
class Count:
    passed: int = 0
    skipped: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)  # name, what it said

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures

    def line(self):
        return f"{self.passed} passed, {len(self.failures)} failed, {self.skipped} skipped"


def read_report(path):
    """Counts the test cases of a JUnit report; GoogleTest's dialect and pytest's."""
    count = Count()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        failures = case.findall("failure") + case.findall("error")
        if failures:
            name = f"{case.get('classname', '')}.{case.get('name', '')}"
            count.failures.append((name, "\n".join(told(f) for f in failures)))
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            count.skipped += 1
        else:
            count.passed += 1
    return count


def told(failure):
    return (failure.text or failure.get("message") or "").strip()


def read_meson(log, folder):
    """Every test program of Meson's log, with the report that it left in `folder`."""
    count = Count()
    if not os.path.exists(log):
        count.failures.append(("meson test", "left no log: it did not run"))
        return count
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                count.add(read_program(json.loads(line), folder))
    return count


def read_program(entry, folder):
    """One test program: its report, checked against how the program ended."""
    if entry["result"] == "SKIP":
        return Count(skipped=1)
    ended_well = entry["result"] in MESON_GOOD
    report = os.path.join(folder, os.path.basename(entry["command"][0]) + ".xml")
    if ended_well and not os.path.exists(report):
        return Count(passed=1)  # not a GoogleTest program
    problem = "" if ended_well else f"{entry['result']}, exit status {entry.get('returncode')}"
    try:
        count = read_report(report)
    except (OSError, ElementTree.ParseError):
        count, problem = Count(), problem or "its report cannot be read"
    if problem and not count.failures:
        count.failures.append((entry["name"], f"ended before its tests did: {problem}"))
    return count


def read_pytest(report, status):
    """pytest's report; an ending that the report does not explain is a failure."""
    try:
        count = read_report(report)
    except (OSError, ElementTree.ParseError):
        count = Count()
        if status in PYTEST_FINISHED:
            status = f"{status}, and left no report that can be read"
    if status not in PYTEST_FINISHED and not count.failures:
        count.failures.append(("pytest", f"ended before its tests did: exit status {status}"))
    return count


def read_failed(names):
    """Steps that are no test programs: what they said was printed when they ran."""
    return Count(failures=[(name, "failed; what it said stands above") for name in names])


def print_failures(failures):
    for name, text in failures:
        print(f"FAILED {name}")
        for line in text.splitlines()[:60]:
            print(f"    {line}")
    if failures:
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--meson-log", help="left out: only pytest ran")
    parser.add_argument("--gtest", required=True, help="folder of GoogleTest's XML reports")
    parser.add_argument("--pytest", required=True, help="pytest's XML report")
    parser.add_argument("--pytest-status", type=int, required=True)
    parser.add_argument("--failed", action="append", default=[], metavar="NAME",
                        help="another step that failed; may be given again")
    options = parser.parse_args()
    total = read_meson(options.meson_log, options.gtest) if options.meson_log else Count()
    total.add(read_pytest(options.pytest, options.pytest_status))
    total.add(read_failed(options.failed))
    sys.stdout.flush()
    print_failures(total.failures)
    if not total.passed and not total.failures:
        print("no test ran")
    print(total.line())
    return 0 if total.passed and not total.failures else 1


if __name__ == "__main__":
    sys.exit(main())
