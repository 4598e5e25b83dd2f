"""Tests marked `gpu` need one, and are skipped where there is none. tools/test --gpu runs them, and
those marked `any_device`, which otherwise run on the CPU, and no others."""

import os

import pytest
from gpus import count_gpus


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU")
    config.addinivalue_line("markers",
                            "any_device: runs on the device that PENSTOCK_TEST_DEVICE names")


def pytest_collection_modifyitems(items):
    on_a_gpu = os.environ.get("PENSTOCK_TEST_DEVICE", "cpu") != "cpu"
    marks = {"gpu", "any_device"} if on_a_gpu else {"gpu"}
    need_one = [item for item in items if marks & set(item.keywords)]
    if not need_one or count_gpus() > 0:
        return
    for item in need_one:
        item.add_marker(pytest.mark.skip(reason="this machine has no GPU"))


@pytest.fixture
def standard_output():
    """Where /dev/stdout leads. On some machines there is a file of that name: tools that ran as
    root put it in the link's place."""
    return "/proc/self/fd/1"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    from launchers import Slurm
    running = Slurm(tmp_path_factory.mktemp("slurm"))
    yield running
    running.stop()
