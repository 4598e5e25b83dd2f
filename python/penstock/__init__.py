"""Penstock from Python."""


def pipe_split():
    """Marks in a model's forward where a pipeline stage shall begin; `plan --split pipe_split`.

    It is the marker of torch.distributed.pipelining and changes nothing in the model.
    """
    from torch.distributed.pipelining import pipe_split as mark  # takes seconds, so only where used
    mark()
