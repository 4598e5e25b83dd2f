"""The file that an export writes: checked before anything is built, and complete or not there."""

import contextlib
import os
import stat
import tempfile

from .errors import UserError


def check(path, source):
    """Refuses a path that cannot be written, or that is the file `source` which is read."""
    if not path:
        raise UserError("-o: an empty path; give one; is a variable not set?")
    if not path.endswith(".pt2"):
        raise UserError(f"-o {path}: the name has to end with .pt2")
    if os.path.isdir(path):
        raise UserError(f"-o {path}: is a folder; give the name of a file")
    if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
        raise UserError(f"-o {path}: is the same file as {source}, which would be lost; write to "
                        "another file")
    if is_device(path):
        return
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.exists(folder):  # it will be made
        folder = os.path.dirname(folder)
    with refusing(path), tempfile.TemporaryFile(dir=folder):
        pass


def is_device(path):
    """A pipe, /dev/null by another name: it is written to, for nothing can take its place."""
    return os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode)


@contextlib.contextmanager
def refusing(path):
    """Says why the path cannot be written, as the system does."""
    try:
        yield
    except OSError as error:
        raise UserError(f"-o {path}: cannot be written: {error.strerror or error}") from error


class Sink:
    """Takes all that is written to it, and keeps the first error for later: torch's writer ends the
    process where it is told of one."""

    def __init__(self, file):
        self.file, self.error = file, None

    def write(self, data):
        if self.error is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.error = error
        return len(data)


def write(path, save):
    """Has `save` write to a file beside the one that `path` names, through links, then renames."""
    with refusing(path):
        if is_device(path):
            with open(path, "wb") as file:
                return write_to(file, save)
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
            unfinished = os.path.join(scratch, "model.pt2")
            with open(unfinished, "wb") as file:
                write_to(file, save)
                os.fsync(file.fileno())
            os.replace(unfinished, target)


def write_to(file, save):
    sink = Sink(file)
    save(sink)
    if sink.error:
        raise sink.error
    file.flush()
