"""A call of NCCL that fails, or whose process dies in it, ends the run and is named:
tests/cli/execute/nccl_fault.c, which goes between a worker and NCCL, makes one of one rank do so.
That it does is tested with a stand-in for NCCL, on any machine.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines import PENSTOCK, clean_environment, device_flags, needs_backend
from trainings import TWO, plan_of

SOURCE = Path(__file__).with_name("nccl_fault.c")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="cc is not installed")

NCCL = """
typedef struct { char internal[128]; } UniqueId;
int ncclCommInitRankConfig(void** comm, int size, UniqueId id, int rank, void* config) {
  return size == 2 && id.internal[127] == 7 && rank == 1 ? 0 : 9;
}
int ncclSend(const void* data, unsigned long count) { return data || count != 5 ? 9 : 0; }
int ncclRecv(void* data, unsigned long count) { return data || count != 5 ? 9 : 0; }
int ncclAllReduce(const void* from, void* to, unsigned long count) {
  return from || to || count != 5 ? 9 : 0;
}
"""
# As penstock-cuda.so: loaded by dlopen, linked to NCCL. Each answers 0 where NCCL got what it was
# given.
MODULE = """
typedef struct { char internal[128]; } UniqueId;
int ncclCommInitRankConfig(void**, int, UniqueId, int, void*);
int ncclSend(const void*, unsigned long, int, int, void*, void*);
int ncclRecv(void*, unsigned long, int, int, void*, void*);
int ncclAllReduce(const void*, void*, unsigned long, int, int, void*, void*);
int call_connect(void) {
  UniqueId id = {{0}};
  id.internal[127] = 7;
  return ncclCommInitRankConfig(0, 2, id, 1, 0);
}
int call_send(void) { return ncclSend(0, 5, 0, 0, 0, 0); }
int call_receive(void) { return ncclRecv(0, 5, 0, 0, 0, 0); }
int call_all_reduce(void) { return ncclAllReduce(0, 0, 5, 0, 0, 0, 0); }
"""
DRIVER = """
import ctypes, os, sys
module = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_GLOBAL)
os.environ["NCCL_HOSTID"] = sys.argv[2]
for _ in range(4):
    for name in ("connect", "send", "receive", "all_reduce"):
        print(name, module["call_" + name](), flush=True)
"""
CALLS = ["connect", "send", "receive", "all-reduce"]
RETURNED = {"error": 3, "lost": 2}  # ncclInternalError, ncclSystemError


def compiled(output, source, *flags):
    subprocess.run(["cc", "-shared", "-fPIC", "-o", output, source, *flags], check=True,
                   capture_output=True, text=True)
    return output


def fault_environment(folder, fault, host="penstock-1"):
    library = compiled(folder / "nccl_fault.so", SOURCE, "-Wall", "-Wextra", "-Werror")
    return clean_environment() | {"LD_PRELOAD": str(library), "PENSTOCK_FAULT": fault,
                                  "PENSTOCK_FAULT_HOST": host}


@pytest.fixture
def called(tmp_path):
    """Runs four rounds of all calls in the process of one host; its exit status, what each
    returned, and stderr."""
    for name, text in (("nccl", NCCL), ("module", MODULE)):
        (tmp_path / f"{name}.c").write_text(text)
    nccl = compiled(tmp_path / "libnccl.so.2", tmp_path / "nccl.c", "-Wl,-soname,libnccl.so.2")
    module = compiled(tmp_path / "module.so", tmp_path / "module.c", nccl, f"-Wl,-rpath,{tmp_path}")

    def run(fault, host):
        done = subprocess.run([sys.executable, "-c", DRIVER, module, host],
                              env=fault_environment(tmp_path, fault), capture_output=True,
                              text=True, timeout=60)
        lines = [line.split() for line in done.stdout.splitlines()]
        results = [(name.replace("_", "-"), int(result)) for name, result in lines]
        return done.returncode, results, done.stderr

    return run


ALL = [(name, 0) for _ in range(4) for name in CALLS]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("how", ["error", "lost"])
def test_the_call_that_was_named_returns_an_error_and_all_others_are_nccls(called, name, how):
    status, results, errors = called(f"{name}:3:{how}", "penstock-1")
    at = 2 * len(CALLS) + CALLS.index(name)
    assert (status, results) == (0, ALL[:at] + [(name, RETURNED[how])] + ALL[at + 1:])
    assert errors == f"fault: {name}:3:{how} of penstock-1\n"


@pytest.mark.parametrize("name", CALLS)
def test_it_kills_its_process_instead(called, name):
    status, results, _ = called(f"{name}:2:kill", "penstock-1")
    assert (status, results) == (-signal.SIGKILL, ALL[:len(CALLS) + CALLS.index(name)])


@pytest.mark.parametrize("how", ["error", "kill"])
def test_other_ranks_are_left_alone(called, how):
    assert called(f"send:3:{how}", "penstock-0") == (0, ALL, "")


def wait_for_the_fault(process, errors, patience_s=120):
    """Until the library says that it struck."""
    end = time.monotonic() + patience_s
    while "fault: " not in errors.read_text():
        assert process.poll() is None and time.monotonic() < end, errors.read_text()
        time.sleep(0.05)


@pytest.mark.gpu
@needs_backend
@pytest.mark.parametrize("fault", [
    "connect:1:error", "connect:3:kill", "send:3:error", "send:3:kill", "receive:3:error",
    "receive:3:lost", "receive:3:kill", "all-reduce:2:error", "all-reduce:2:kill"])
def test_a_call_of_nccl_that_fails_ends_the_run_and_names_rank_and_lane(tmp_path, fault):
    """GPT-2 on two ranks that share a GPU and the embedding: a lane each way, connected by the
    calls 1 and 2 with a byte each, and one for the sum of the gradient, connected by call 3. 30 s
    are enough for an end by no deadline."""
    plan = plan_of(tmp_path, "gpt2", TWO, {"kind": "sgd", "learning_rate": 0.05})
    flags = ["--device", "cuda", "--ranks-per-device", "2", "--steps", "50"]
    errors = tmp_path / "errors"
    with errors.open("w") as stderr:
        process = subprocess.Popen([PENSTOCK, "execute", plan, *flags, *device_flags(plan, flags)],
                                   stderr=stderr, stdout=subprocess.DEVNULL,
                                   env=fault_environment(tmp_path, fault), start_new_session=True)
    try:
        wait_for_the_fault(process, errors)
        assert process.wait(timeout=30) == 1, errors.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = errors.read_text()
    if fault.endswith("kill"):
        assert re.search(r"rank 1 \(process \d+\) ended .*SIGKILL", said), said
    else:
        lanes = {"connect": "0-1-activations", "send": "1-0-gradients",
                 "receive": "0-1-activations", "all-reduce": "sum-0-1"}
        assert re.search(rf"rank 1 failed .*lane {lanes[fault.split(':')[0]]}: ", said), said
