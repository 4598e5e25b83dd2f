"""A plan in training, fed by a script."""

import json
import math
import os
import threading
from numbers import Real
from pathlib import Path
from typing import Any

from .batches import Batches, shared_memory, view
from .errors import InputError, LossNotFinite, RunError
from .server import Server


class Pipeline:
    """A plan in training. All processes of a launcher (torchrun, srun, mpirun) create it with equal
    arguments and call its methods in the same order, from one thread; without one, this process
    feeds all ranks.

    `save` is the folder for checkpoints: one after every `save_every` steps, and at the end; the
    latest `keep` stay. `resume` is a checkpoint, or a folder of some, to go on from; where it is
    the folder of `save`, there may be none yet. With `survive="local"` a rank that is killed or
    hangs is replaced, with the bits of an undisturbed run: a call takes longer, a warning says why,
    and `restarts` counts; "auto" does so where it can, and else warns. After
    `patience` seconds without a call one warning on standard error names the script that the ranks
    wait for; nothing ends.
    """

    rank: int       # of this process; 0 where it feeds all ranks
    ranks: int
    replica: int    # for samplers; 0 and 1 where one process feeds all
    replicas: int
    batch_size: int           # samples that this process passes per step
    inputs: tuple[str, ...]   # tensors that it must pass; () in mid-pipeline
    gradient_norm: float | None = None  # of the last step, where the job clips
    step_seconds: float | None = None   # of the last step, on a rank
    extra: Any = None  # what the script had saved beside the checkpoint that this goes on from

    def __init__(self, plan: Path | str, *, device: str = "cpu", resume: Path | str | None = None,
                 save: Path | str | None = None, save_every: int = 0, keep: int = 3,
                 survive: str = "off", patience: int = 60) -> None:
        import torch  # noqa: F401, a missing one is told before anything starts
        check_count("save_every", save_every, 0)
        check_count("keep", keep, 1)
        check_count("patience", patience, 1)
        if survive not in ("off", "local", "auto"):
            raise InputError(
                f"Pipeline: survive is {survive!r}: give \"off\", \"local\" or \"auto\"")
        if save_every and save is None:
            raise InputError("Pipeline: save_every is given, but no folder: pass save=")
        self._save, self._save_every, self._keep = path_text("save", save), save_every, keep
        self._extra = None  # for later checkpoints
        self._closed = False
        self._thread, self._process = threading.get_ident(), os.getpid()
        self._results = os.memfd_create("penstock-results")
        batches = os.memfd_create("penstock-batches")
        try:
            words = [path_text("plan", plan), "--device", device, "--survive", survive,
                     "--patience", str(patience)]
            if save is not None:
                words += ["--save", self._save]
            if resume is not None:
                words += ["--resume", path_text("resume", resume)]
            self._server = Server(words, batches, self._results)
            self._begin(self._server.ready(), batches)
        except BaseException:
            if hasattr(self, "_server"):
                self._server.leave()
            self._give_back()
            raise
        finally:
            os.close(batches)  # the mapping stays
        self._checkpoint = None if resume is None else Path(resume)
        self._saved = self.steps_done  # the step of the last checkpoint

    def _begin(self, ready, batches):
        self.rank, self.ranks = ready["rank"], ready["ranks"]
        self.replica, self.replicas = ready["replica"], ready["replicas"]
        self.extra = ready["extra"]
        batch = ready["batch"]
        self.batch_size = batch["samples"]
        self._batches = Batches(batches, batch, ready["samples"])
        self.inputs = self._batches.inputs

    @property
    def steps_done(self) -> int:
        """Steps of the training, those before a checkpoint that it goes on from included."""
        return self._server.steps_done

    @property
    def restarts(self) -> int:
        """How often ranks were replaced."""
        return self._server.restarts

    def step(self, *args, target=None, learning_rate: float | None = None, extra: Any = None,
             **kwargs) -> float:
        """One optimizer step; returns the global batch's loss, the same on all processes.

        Arguments are those of the model's forward, with `batch_size` samples. `learning_rate`
        replaces the job's; its groups keep their ratio to it. `extra`, which JSON can hold (a
        loader's position), goes into later checkpoints, from rank 0. Raises LossNotFinite, after
        which parameters, buffers and the optimizer are as before.
        """
        self._check_usable("step")
        check_rate(learning_rate)
        check_extra(extra)
        batch = self._put("step", args, kwargs, target, with_target=True)
        result = self._request("step", {"learning_rate": learning_rate}, batch)
        if "not_finite" in result:
            raise LossNotFinite(result["not_finite"])
        self._extra = self._extra if extra is None else extra
        self.step_seconds, self.gradient_norm = result["step_s"], result.get("gradient_norm")
        if self._save_every and self.steps_done % self._save_every == 0:
            self.save()
        return result["loss"]

    def evaluate(self, *args, target=None, **kwargs) -> float:
        """The loss of such a batch, or a smaller one, in evaluation mode; NaN where none of its
        targets counts. Changes nothing."""
        self._check_usable("evaluate")
        batch = self._put("evaluate", args, kwargs, target, with_target=True)
        loss = self._request("evaluate", {}, batch)["loss"]
        return math.nan if loss is None else loss

    def forward(self, *args, **kwargs) -> dict | None:
        """The model's outputs in evaluation mode by name, of such a batch or a smaller one of all
        replicas, on rank 0; None elsewhere."""
        self._check_usable("forward")
        return self._tensors("forward", self._put("forward", args, kwargs))

    def state_dict(self) -> dict | None:
        """A copy of parameters and buffers under the module's names, on rank 0; None elsewhere."""
        self._check_usable("state_dict")
        return self._tensors("state_dict")

    def save(self, folder: Path | str | None = None, *, wait: bool = True) -> Path:
        """Writes a checkpoint `step-N` into the folder, by default the pipeline's, and returns its
        path. With `wait=False` it returns while the ranks write: the next call waits for them, and
        raises what went wrong."""
        self._check_usable("save")
        folder = path_text("save", folder) or self._save
        if folder is None:
            raise InputError("save: no folder: pass one, or create the Pipeline with save=")
        given = {"folder": os.path.abspath(folder), "keep": self._keep}
        if wait:
            self._take_saved(self._request("save", given, extra=self._extra))
        else:
            self._reach(self._server.post, "save", given, self._extra, self._take_saved)
        self._saved = self.steps_done
        return Path(given["folder"]) / f"step-{self.steps_done}"

    def load(self, folder: Path | str) -> Any:
        """Goes back, or on, to a checkpoint, or the newest intact one of a folder: parameters, the
        optimizer's state, the step. Returns what the script had saved beside it (`extra`)."""
        self._check_usable("load")
        given = {"folder": os.path.abspath(path_text("load", folder))}
        self.extra = self._request("load", given)["extra"]
        self._checkpoint, self._saved = Path(folder), self.steps_done
        return self.extra

    def close(self) -> None:
        """Ends the ranks; with `save`, after a last checkpoint. Again it does nothing."""
        if self._closed:
            return
        self._check_usable("close")
        try:
            if self._save is not None and self.steps_done != self._saved:
                self.save()
            if not self._closed:
                self._server.close()
        finally:
            self._server.leave()
            self._give_back()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:  # no checkpoint of what may be half-done, and no waiting
            self._server.leave()
            self._give_back()

    def __reduce__(self):
        raise InputError("a Pipeline cannot be copied or pickled: its ranks are processes; give a "
                         "DataLoader's dataset what it needs instead")

    def _take_saved(self, result):
        self._checkpoint = Path(result["checkpoint"])

    def _put(self, call, *arguments, **settings):
        self._reach(self._server.settle)
        return self._batches.put(self.steps_done, call, *arguments, **settings)

    def _tensors(self, call, batch=None):
        result = self._request(call, {}, batch)
        if result is None:
            return None
        import torch
        memory = shared_memory(self._results, result["bytes"])
        tensors = {each["name"]: view(memory, getattr(torch, each["dtype"]), each["shape"],
                                      each["offset"]).clone() for each in result["tensors"]}
        del memory
        os.ftruncate(self._results, 0)
        return tensors

    def _request(self, *arguments, **more):
        return self._reach(self._server.request, *arguments, **more)

    def _reach(self, call, *arguments, **more):
        try:
            return call(*arguments, **more)
        except (RunError, InputError) as error:
            if not self._server.alive:
                self._give_back()
            if isinstance(error, RunError):
                error.checkpoint = self._checkpoint
            raise

    def _give_back(self):
        if not self._closed:
            self._closed = True
            os.close(self._results)

    def _check_usable(self, call):
        if self._closed:
            raise InputError(f"{call}: the pipeline is closed: create another one, with resume= to "
                             "go on from a checkpoint")
        if os.getpid() != self._process:
            raise InputError(f"{call}: the pipeline is process {self._process}'s, this is "
                             f"{os.getpid()}: call it there, not in a DataLoader's worker")
        if threading.get_ident() != self._thread:
            raise InputError(f"{call}: called from another thread than the one that created the "
                             "pipeline: call it there")


def path_text(name, path):
    if path is None:
        return None
    try:
        text = os.fspath(path)
    except TypeError:
        text = path
    if not isinstance(text, str) or not text:
        raise InputError(f"{name}: {path!r} is no path: give one; is a variable not set?")
    return text


def check_count(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"Pipeline: {name} is {value!r}: give a number from {least} on")


def check_extra(extra):
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"step: extra is {extra!r}, which JSON cannot hold: give numbers, text, "
                         "lists and dictionaries, as a loader's state_dict() has them") from error


def check_rate(rate):
    fits = isinstance(rate, Real) and not isinstance(rate, bool) and 0 <= rate < math.inf
    if rate is not None and not fits:
        raise InputError(f"step: learning_rate is {rate!r}: give a number from 0 on, or None for "
                         "the job's")
