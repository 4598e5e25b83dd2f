"""Tests marked `gpu` need one, and are skipped where there is none; tools/test --gpu runs them alone."""

import ctypes

import pytest


def driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def has_driver():
    return driver() is not None


def gpus():
    library, count = driver(), ctypes.c_int(0)
    if library is None or library.cuInit(0) != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU")


def pytest_collection_modifyitems(items):
    if not any("gpu" in item.keywords for item in items) or gpus() > 0:
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="this machine has no GPU"))
