"""Penstock's programs: where they are, and how a command of theirs is run."""

import importlib.util
import os
import selectors
import subprocess
import sys
from pathlib import Path

from .errors import InputError, RunError

PREFIX = "penstock: "  # of the message that a program ends with
REDRAWN = "\r\033[K"   # before each state of the line of progress


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
    os.execve(path, [str(path), *sys.argv[1:]], environment())


def environment(**more):
    """The variables of a program, which looks for torch beside the package."""
    variables = {**os.environ, **more}
    package = Path(__file__).resolve().parent
    if (package / "bin").exists() and not (package.parent / "torch").exists():
        found = importlib.util.find_spec("torch")
        if found:
            places = [f"{found.submodule_search_locations[0]}/lib",
                      *filter(None, [variables.get("LD_LIBRARY_PATH")])]
            variables["LD_LIBRARY_PATH"] = ":".join(places)
    return variables


def flags(options):
    """`data_parallel=1` as `--data-parallel 1`; True gives a flag without a value, and None, False
    nothing; a list is one value, and a dictionary gives the flag again for each of its keys."""
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
    """What the command printed. Raises InputError with its message for a mistake, else RunError.

    `progress` is called with the line that says how far it is, each time that this changes.
    """
    variables = environment(**{"PENSTOCK_PROGRESS": "line"} if progress else {})
    with subprocess.Popen([str(program()), command, *map(str, words)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables) as child:
        try:
            output, errors = read_both(child, progress)
        except BaseException:
            child.terminate()
            raise
    if child.returncode == 0:
        return output
    message = errors.rpartition(REDRAWN)[2].strip()
    message = message.rpartition("\n" + PREFIX)[2].removeprefix(PREFIX)
    if child.returncode == 2:
        raise InputError(f"{command}: {message.removeprefix(f'{command}: ')}")
    raise RunError(message or f"penstock {command} ended with status {child.returncode}")


def version():
    """The programs' version."""
    return run("--version").split()[-1]


def read_both(child, progress):
    """Standard output and error to their ends."""
    texts = {child.stdout: b"", child.stderr: b""}
    with selectors.DefaultSelector() as selector:
        for stream in texts:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if chunk := os.read(key.fd, 1 << 16):
                    texts[key.fileobj] += chunk
                else:
                    selector.unregister(key.fileobj)
                if progress and key.fileobj is child.stderr and REDRAWN.encode() in chunk:
                    progress(chunk.decode(errors="replace").rpartition(REDRAWN)[2])
    return [text.decode(errors="replace") for text in texts.values()]
