"""Penstock from Python: plan a model's pipeline, and train it from your own script.

    penstock.export(model, (tokens,), "m.pt2")
    job = penstock.write_job("job.yaml", model="m.pt2", loss="cross_entropy", global_batch=32,
                             optimizer={"kind": "adamw", "learning_rate": 3e-4})
    penstock.plan(penstock.profile(job, "profile.json"), "plan.yaml", ranks=4)

    with penstock.Pipeline("plan.yaml", save="saved") as pipe:
        for batch in loader:
            loss = pipe.step(batch["tokens"], target=batch["labels"])

It never initialises CUDA or torch.distributed, starts threads, handles signals, prints, or changes
the environment; ranks are processes of their own.
"""

from .commands import plan, profile, simulate, write_job
from .errors import InputError, LossNotFinite, RunError
from .exporting import export
from .pipeline import Pipeline

__all__ = ["InputError", "LossNotFinite", "Pipeline", "RunError", "export", "pipe_split", "plan",
           "profile", "simulate", "write_job"]


def __getattr__(name):
    if name == "__version__":  # that of the programs, which are asked where it is used
        from .programs import version
        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pipe_split():
    """Marks in a model's forward where a pipeline stage shall begin; `plan --split pipe_split`.

    It is the marker of torch.distributed.pipelining and changes nothing in the model.
    """
    from torch.distributed.pipelining import pipe_split as mark  # takes seconds, so only where used
    mark()
