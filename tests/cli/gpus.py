"""The GPUs of this machine."""

import ctypes


def driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def has_driver():
    return driver() is not None


def count_gpus():
    library, count = driver(), ctypes.c_int(0)
    if (library is None or library.cuInit(0) != 0
            or library.cuDeviceGetCount(ctypes.byref(count)) != 0):
        return 0
    return count.value
