"""Penstock's programs: where they are, and how a command of theirs is run."""

import os
import subprocess
import sys
from pathlib import Path

from .errors import InputError, RunError

PREFIX = "penstock: "  # of the message that a program ends with


def program():
    """The path of `penstock`, which finds `penstock-worker` beside itself."""
    here = Path(__file__).resolve().parent
    given = os.environ.get("PENSTOCK_BUILD")
    folders = [here / "bin",                                  # of an installed wheel
               *([Path(given)] if given else []),
               here.parents[1] / "build",                     # of a checkout
               here.parents[2] / "bin"]                       # of `meson install`
    for folder in folders:
        if os.access(folder / "penstock", os.X_OK):
            return folder / "penstock"
    raise InputError("penstock: there is no program beside the module: install the wheel, or build "
                     "the checkout with tools/build")


def main():
    """The command `penstock` of an installed wheel."""
    try:
        path = program()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    os.execv(path, [str(path), *sys.argv[1:]])


def flags(options):
    """`data_parallel=1` as `--data-parallel 1`; True gives a flag without a value, and None, False
    nothing; a list is one value, or the flag again for each where it has `=` in it."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, dict):
            for key, one in value.items():
                words += [flag, f"{key}={listed(one)}"]
        elif value is not None and value is not False:
            words += [flag, listed(value)]
    return words


def listed(value):
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def run(command, *words, progress=None):
    """What the command printed. Raises InputError with its message for a mistake, else RunError."""
    with subprocess.Popen([str(program()), command, *map(str, words)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace") as child:
        try:
            output, errors = child.communicate()
        except BaseException:
            child.terminate()
            raise
    if child.returncode == 0:
        return output
    message = errors.strip().rpartition("\n" + PREFIX)[2].removeprefix(PREFIX)
    if child.returncode == 2:
        raise InputError(f"{command}: {message}")
    raise RunError(message or f"penstock {command} ended with status {child.returncode}")
