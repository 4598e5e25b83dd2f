"""Whether the samples of a batch influence each other.

Runs the example batch whole and in two parts and compares. Where they differ (batch norm,
attention over the batch, a loss over pairs), the number of microbatches changes the training.
Random operators are switched off for this. The answer is True, False, or None with the reason why
it is not known. A loss that is a mean over the targets that count (cross-entropy, which leaves out
those that are its ignore_index) is no coupling: Penstock weighs microbatches by these counts.
"""

import torch
from torch.utils import _pytree as pytree

from .comparison import difference, tolerance
from .errors import reason
from .randomness import set_argument, switch_off
from .runner import Runner
from .schema import argument

# Their mean divides by the number of targets that are not ignored, or the weights of their classes.
ATEN = torch.ops.aten
MEANS_OF_TARGETS = (ATEN.cross_entropy_loss.default, ATEN.nll_loss.default,
                    ATEN.nll_loss_nd.default, ATEN.nll_loss2d.default)
NONE, MEAN = 0, 1  # of their argument `reduction`

# Another batch size lets matrix products add in another order, in every layer: ten times what the
# comparison with the module allows. A coupling weaker than that changes the training no more than
# rounding does.
MARGIN = 10


def check(program, args, kwargs):
    """(True | False | None, reason) for a program with a dynamic batch."""
    if equal_samples(args, kwargs):
        return None, "all samples of the example batch are equal; let example_inputs() vary them"
    runner = Runner(program)
    left = switch_off(runner.graph)
    if left:
        return None, f"{left[0]} draws random numbers and cannot be switched off"
    keep_losses_of_targets(runner.graph)
    size = pytree.tree_leaves((args, kwargs))[0].shape[0]
    try:
        parts = [slice(0, size), slice(0, size // 2), slice(size // 2, size)]
        whole, first, second = [forward(runner, args, kwargs, part) for part in parts]
    except Exception as error:
        return None, f"half the example batch does not run: {reason(error, 200)}"
    pairs = [(w, join(w, a, b, (size // 2) / size))
             for w, a, b in zip(whole, first, second, strict=True)]
    if not pairs:
        return None, "no output of floating type"
    return any(coupled(*pair) for pair in pairs), ""


def keep_losses_of_targets(graph_module):
    """Outputs that are a mean over targets become the losses of all targets."""
    for node in graph_module.graph.output_node().all_input_nodes:
        if node.target in MEANS_OF_TARGETS and argument(node, "reduction") == MEAN:
            set_argument(node, "reduction", NONE)
    graph_module.recompile()


def equal_samples(args, kwargs):
    return all(torch.equal(value, value[:1].expand_as(value))
               for value in pytree.tree_leaves((args, kwargs)))


def forward(runner, args, kwargs, part):
    """The floating outputs of a part of the batch."""
    with torch.no_grad():
        outputs, _ = runner(*pytree.tree_map(lambda value: value[part], (args, kwargs)))
    return [value for value in outputs
            if isinstance(value, torch.Tensor) and value.is_floating_point()]


def join(whole, first, second, share):
    """What `whole` is without coupling: the parts one after the other, or their mean for a loss.

    None where neither fits, as for a matrix of all pairs of samples.
    """
    if first.dim() != whole.dim() or second.dim() != whole.dim():
        return None
    if whole.shape == first.shape == second.shape:
        return first * share + second * (1 - share)
    grown = [d for d, sizes in enumerate(zip(whole.shape, first.shape, second.shape, strict=True))
             if len(set(sizes)) > 1]
    if len(grown) > 1 or first.shape[grown[0]] + second.shape[grown[0]] != whole.shape[grown[0]]:
        return None
    return torch.cat([first, second], grown[0])


def coupled(whole, joined):
    return joined is None or difference(whole, joined) > MARGIN * tolerance(whole.dtype)
