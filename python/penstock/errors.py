"""What goes wrong, by who can mend it."""


class InputError(ValueError):
    """A mistake in a file or an argument. The message names the place, the value and the cure."""


class LossNotFinite(RuntimeError):
    """The loss of a step, or the norm that gradients are clipped by, is infinite or not a number.
    Raised on all processes; the step has changed no parameter, and another may follow."""


class RunError(RuntimeError):
    """A run has failed; the pipeline is closed.

    `rank`, `step` (from 1) and `action` say where, as far as that is known; `checkpoint` is the
    newest that the pipeline wrote or loaded, to resume from.
    """

    def __init__(self, message, *, rank=None, step=None, action=None, checkpoint=None):
        super().__init__(message)
        self.rank, self.step, self.action, self.checkpoint = rank, step, action, checkpoint
