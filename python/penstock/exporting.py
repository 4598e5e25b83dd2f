"""A module that a script has built, as the `.pt2` that Penstock reads."""

import contextlib
import io
import logging
import os
import warnings
from pathlib import Path
from types import SimpleNamespace

from .errors import InputError

DTYPES = ("float32", "float64", "bfloat16")


def export(model, args, path, *, kwargs=None, static=False, decompose=False, dtype=None):
    """Writes the module as a `.pt2` and returns its path.

    `args` and `kwargs` are example inputs of forward: a batch of 2 samples or more, whose size
    stays open unless `static`. `decompose` replaces custom operators by the torch operators they
    consist of; `dtype` ("bfloat16", torch.float64) converts floating parameters, buffers and
    inputs. What was exported is compared with the module, which is left as it is: outputs,
    gradients, buffers. Raises InputError.
    """
    from .exporter import errors, output
    dtype = dtype and str(dtype).removeprefix("torch.")
    if dtype not in (None, *DTYPES):
        raise InputError(f"export: dtype is {dtype}: give one of {', '.join(DTYPES)}")
    options = SimpleNamespace(output=os.fspath(path), static=static, decompose=decompose,
                              dtype=dtype, meta=False, seed=0)
    said = io.StringIO()
    try:
        output.check(options.output, "")
        with quiet(said):
            from .exporter.export import run
            run(source_of(model, args, kwargs or {}), options)
    except errors.UserError as error:
        raise InputError(f"export: {error}") from None
    for line in said.getvalue().splitlines():
        if line.startswith("WARNING: "):
            warnings.warn(line.removeprefix("WARNING: "), stacklevel=2)
    return Path(path)


def source_of(model, args, kwargs):
    """What the exporter takes a user's file for."""
    import torch

    from .exporter.export import duplicate
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"export: model is a {type(model).__name__}: give a torch.nn.Module")
    if isinstance(args, torch.Tensor):
        args = (args,)
    if args and kwargs:
        raise InputError("export: both args and kwargs are given: name all inputs in kwargs, and "
                         "pass () as args")
    return SimpleNamespace(path="export", model=lambda: duplicate(model),
                           example_inputs=lambda: kwargs or tuple(args),
                           call=lambda function: function(), settings=dict)


@contextlib.contextmanager
def quiet(said):
    """While the exporter works: what it says goes to `said`, and what it changes of torch and
    Python, the random state, the warnings and the environment, comes back."""
    import torch
    log = logging.getLogger("torch")
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    level, environment = log.level, dict(os.environ)
    try:
        with (contextlib.redirect_stderr(said), warnings.catch_warnings(),
              torch.random.fork_rng(devices)):
            yield
    finally:
        log.setLevel(level)
        for name in os.environ.keys() - environment.keys():  # torch names itself a folder
            del os.environ[name]
