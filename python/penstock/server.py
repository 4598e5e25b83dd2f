"""The process `penstock serve` that runs a pipeline's ranks, and the requests to it."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import warnings
import weakref

from .errors import InputError, RunError
from .programs import environment, program

PATIENCE_S = 1  # for a process to end that has been left
sessions = itertools.count(1)


class Server:
    """Starts with `words` as arguments; it ends with this object, or when this process does.

    A request that was interrupted (Ctrl-C) is carried out all the same; the next one waits for it.
    """

    def __init__(self, words, batches, results):
        # In a session of its own, so that Ctrl-C reaches the script alone.
        self._process = subprocess.Popen(
            [str(program()), "serve", *words, "--batches", str(batches), "--results", str(results)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(batches, results),
            start_new_session=True, env=environment(PENSTOCK_SESSION=str(next(sessions))))
        self._owner = os.getpid()
        self._end = weakref.finalize(self, leave, self._process, self._owner)
        self._ids = itertools.count(1)
        self._unsettled = False  # a request that may not have been answered
        self._posted = self._refused = None  # a request that nobody waits for; why it was not done
        self.steps_done = self.restarts = 0

    @property
    def alive(self):
        return self._end.alive

    def ready(self):
        """What it says once the ranks are connected."""
        return self._read(lambda event: event["event"] == "ready")

    def settle(self):
        """Returns once no request is under way. Raises InputError where a posted one was not
        done."""
        if self._unsettled:
            self._exchange("sync", {})
        if self._refused is not None:
            message, self._refused = self._refused, None
            raise InputError(message)

    def request(self, do, given, batch=None, extra=None):
        """Its result; `batch`, as Batches.put says of one. Raises InputError where nothing was
        done."""
        self.settle()
        done = self._exchange(do, given, batch, extra)
        if "refused" in done:
            raise InputError(refusal(do, done))
        return done["result"]

    def post(self, do, given, extra, take):
        """As `request`, but the next one waits for its end, and raises what it raises; `take` is
        called with the result."""
        self.settle()
        self._unsettled = True
        self._posted = next(self._ids), do, take
        self._write({"id": self._posted[0], "do": do, "given": given, "extra": extra})

    def _exchange(self, do, given, batch=None, extra=None):
        number = next(self._ids)
        self._unsettled = True
        self._write({"id": number, "do": do, "given": given, "extra": extra, **(batch or {})})
        done = self._read(lambda event: event.get("id") == number)
        self._unsettled = False
        return done

    def _write(self, request):
        with contextlib.suppress(BrokenPipeError):  # what it says last is read
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self, wanted):
        for event in self._events():
            if wanted(event):
                return event
        self.leave()
        raise RunError(f"penstock serve {ending(self._process.wait())}: start the pipeline again, "
                       "from a checkpoint where there is one")

    def _events(self):
        """What it says, until it ends; its failure is raised."""
        while line := self._process.stdout.readline():
            event = json.loads(line)
            self.steps_done = event.get("steps_done", self.steps_done)
            self.restarts = event.get("restarts", self.restarts)
            if self._posted and event.get("id") == self._posted[0]:
                self._take_posted(event)
            if event["event"] == "warning":
                warnings.warn(event["message"], stacklevel=6)
            if event["event"] == "error":
                self.leave()
                raise failure(event)
            yield event

    def _take_posted(self, done):
        (_, do, take), self._posted = self._posted, None
        if "refused" in done:
            self._refused = refusal(do, done)
        else:
            take(done["result"])

    def close(self):
        """Ends the run as other ranks' scripts end theirs. Raises RunError."""
        self.settle()
        self._write({"id": next(self._ids), "do": "close", "given": {}, "extra": None})
        for _ in self._events():
            pass
        self.leave()

    def leave(self):
        """Ends the run here, at once."""
        self._end()


def refusal(do, done):
    message = done["refused"]  # of ranks that disagree: `step 12: …`
    return message if message.startswith(f"{do} ") else f"{do}: {message}"


def leave(process, owner):
    if os.getpid() != owner:  # a fork, as a DataLoader's worker is
        return
    process.stdout.close()
    with contextlib.suppress(OSError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):  # it ends by itself, with ours at latest
        process.wait(PATIENCE_S)


def ending(status):
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else \
        f"ended with status {status}"


def failure(event):
    if event["kind"] == "input":
        return InputError(event["message"])
    rank, step = (event[name] if event[name] >= 0 else None for name in ("rank", "step"))
    return RunError(event["message"], rank=rank, step=None if step is None else step + 1,
                    action=event["action"] or None)
