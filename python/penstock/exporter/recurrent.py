"""The shapes of an LSTM's last states.

torch.export records h_n and c_n of nn.LSTM with a dimension too many, and with them all that
follows from them: its decomposition, which gives the shapes, squeezes another dimension than the
one that it added. What runs is the operator itself, whose states are right.
"""

import contextlib
from unittest import mock

from torch._decomp import decompositions


@contextlib.contextmanager
def right_shapes():
    """While it lasts, programs are traced with the states as they are: [layers, batch,
    features]."""
    layer = decompositions.one_layer_lstm

    def squeezed(*args, **kwargs):
        output, states = layer(*args, **kwargs)
        return output, tuple(s.squeeze(0) if s.dim() == 3 else s for s in states)

    with mock.patch.object(decompositions, "one_layer_lstm", squeezed):
        yield
