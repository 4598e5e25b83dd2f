"""The commands before training: a job, its profile, its plan, and what that would take.

Keyword arguments are the command's flags by their names, `data_parallel=1` for `--data-parallel 1`;
`penstock help COMMAND` lists them.
"""

import contextlib
import json
import os
from pathlib import Path

from .display import Plan, Simulation, line_in_notebook
from .errors import InputError
from .programs import flags, run

# A job's keys that name files: relative ones are seen from the folder that the script runs in.
PATHS = ("model", "data")
SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


def write_job(path, **keys):
    """Writes a job file of these keys (docs/files.md) and returns its path.

    Raises InputError, and writes nothing, where the job would not be read.
    """
    path = Path(path)
    for name in PATHS:
        if name in keys:
            keys[name] = seen_from(path.parent, name, keys[name])
    validation = keys.get("validation")
    if isinstance(validation, dict) and "data" in validation:
        data = seen_from(path.parent, "validation data", validation["data"])
        keys["validation"] = {**validation, "data": data}
    text = "penstock: job\n" + "".join(f"{name}: {as_yaml(name, value)}\n"
                                       for name, value in keys.items())
    with unfinished(path) as draft:
        draft.write_text(text)
        checked("write_job", draft, path)
    return path


def as_yaml(name, value):
    try:
        return json.dumps(value, ensure_ascii=False, default=os.fspath)
    except (TypeError, ValueError) as error:
        raise InputError(f"write_job: {name} is {value!r}, which YAML cannot hold: give text, "
                         "numbers, lists and dictionaries") from error


def seen_from(folder, name, value):
    if isinstance(value, (list, tuple)):
        return [seen_from(folder, name, one) for one in value]
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(f"write_job: {name} is {value!r}: give a path")
    text = os.fspath(value)
    if text == "random" or os.path.isabs(text):
        return text
    return os.path.relpath(os.path.abspath(text), os.path.realpath(folder))  # .. leaves no link


@contextlib.contextmanager
def unfinished(path):
    """A file beside `path` that takes its place where nothing was raised."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        yield draft
        os.replace(draft, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def checked(call, draft, path):
    try:
        run("show", draft)
    except InputError as error:
        message = str(error).removeprefix("show: ").replace(str(draft), str(path))
        raise InputError(f"{call}: {message}") from None


def profile(job, path, **options):
    """Measures what each operator of the job's model costs here; returns the profile's path."""
    refuse_under_launcher("profile")
    run("profile", job, "-o", path, *flags(options), progress=line_in_notebook())
    return Path(path)


def plan(profile, path, **options):
    """Finds the best split and schedule for a profile; returns the plan's path, which shows itself
    in a notebook."""
    refuse_under_launcher("plan")
    run("plan", profile, "-o", path, *flags(options), progress=line_in_notebook())
    return Plan(path)


def simulate(plan, **options):
    """What a plan is predicted to take, as `penstock simulate --json` prints it; it shows itself in
    a notebook."""
    words = [plan, *flags(options)]
    return Simulation(json.loads(run("simulate", *words, "--json")), words)


def refuse_under_launcher(call):
    """All of its processes would write the one file."""
    for name in SIZES:
        size = os.environ.get(name, "")
        if size.isdigit() and int(size) > 1:
            raise InputError(f"{call}: {name} is {size}, so that many processes would write one "
                             f"file: call {call}() before, from a script that no launcher starts")
