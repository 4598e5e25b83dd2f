"""Where a model built without memory gets its values from.

Each parameter has a recipe where its module's initialisation is one; buffers, constants and small
parameters without a recipe are computed and written into the file. A recipe never shares its draws
with values that were computed: what belongs together (weight_norm's norm and direction) is equal in
both or computed both.
"""

import torch

from . import recipes

SHOWN = 8  # names in a message
LARGEST_BYTES = 16 << 20  # of a parameter whose values the file holds


class Initial:
    """The recipes by name, and why other parameters have no values."""

    def __init__(self):
        self.recipes, self.unknown = {}, {}
        self.count = 0  # of parameters with a recipe; tied ones have it under each name

    def facts(self, seed):
        return {"seed": seed, "unknown": self.unknown,
                "tensors": {name: recipes.described(recipe)
                            for name, recipe in self.recipes.items()}}


def settle(program, tape):
    """Puts computed values into the program; returns the Initial of all other tensors."""
    initial = Initial()
    held = {name: tensor for name, tensor in {**program.state_dict, **program.constants}.items()
            if isinstance(tensor, torch.Tensor) and tensor.is_meta and tape.knows(tensor)}
    computed, drawn = {}, set()

    def compute(name):
        values, draws = tape.values(held[name])
        if isinstance(held[name], torch.nn.Parameter):
            values = torch.nn.Parameter(values, requires_grad=held[name].requires_grad)
        for other, tensor in held.items():
            if tensor is held[name]:
                computed[other] = values
        drawn.update(draws)

    for name, tensor in held.items():
        recipe = tape.recipe(tensor) if isinstance(tensor, torch.nn.Parameter) else None
        if isinstance(recipe, recipes.Recipe):
            initial.recipes[name] = recipe
        elif name not in computed and (recipe is None or recipe.computable and small(tensor)):
            compute(name)
        elif name not in computed:
            initial.unknown[name] = recipe.reason
    while shared := [name for name, recipe in initial.recipes.items() if recipe.draws & drawn]:
        for name in shared:
            del initial.recipes[name]
            if small(held[name]):
                compute(name)
            else:
                initial.unknown[name] = "others were computed from its values"
    initial.count = len({id(held[name]) for name in initial.recipes})
    for name, values in computed.items():
        place = program.state_dict if name in program.state_dict else program.constants
        place[name] = values
    return initial


def small(tensor):
    return tensor.numel() * tensor.element_size() <= LARGEST_BYTES


def describe(initial):
    """One line about what has a recipe, and one about what lacks values."""
    yield f"{initial.count:,} parameters get their modules' initial values when a run starts"
    if initial.unknown:
        named = [f"{name} ({reason})" for name, reason in initial.unknown.items()]
        more = f", and {len(named) - SHOWN:,} more" if len(named) > SHOWN else ""
        yield f"WARNING: without values to train from: {', '.join(named[:SHOWN])}{more}"
