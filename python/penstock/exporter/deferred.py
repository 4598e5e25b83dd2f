"""A model built without memory: its tensors lie on the meta device, a tape knows their values.

Guarantees that while a model is built under `Tape` no tensor of the default device takes memory;
that `recipe` gives the steps by which a tensor got its values, where these are few and simple; and
that `values` gives what they are, computing no more than they come from. Draws are seeded one by
one, so that values do not depend on which of them are asked for.
"""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import recipes
from .schema import arguments

CONSTRUCTORS = (torch.tensor, torch.as_tensor, torch.asarray)


class Constants(TorchFunctionMode):
    """torch.tensor(…) would forget its numbers on the meta device."""

    def __init__(self, tape):
        self.tape = tape

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function not in CONSTRUCTORS or kwargs.get("device") is not None:
            return function(*args, **kwargs)
        return self.tape.constant(function(*args, **kwargs | {"device": "cpu"}))


class TracedConstants(TorchFunctionMode):
    """So would a forward that is traced on it; here they are constants that the program moves."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = args[0] if args else None
        if function not in CONSTRUCTORS or isinstance(given, torch.Tensor) or not on_meta(kwargs):
            return function(*args, **kwargs)
        return function(*args, **kwargs | {"device": "cpu"}).to("meta")


class Entry:
    """An operation that made a tensor or wrote to one; `made` is None where it only wrote."""

    def __init__(self, index, function, args, kwargs, made):
        self.index, self.function = index, function
        # A parameter may be given another memory later, by `.data`; these aliases keep this one.
        self.args, self.kwargs, self.made = pytree.tree_map(alias, (args, kwargs, made))
        self.read = {storage(t) for t in tensors((args, kwargs)) if t.is_meta}
        self.written = {storage(t) for t in written(function, args, kwargs) if t.is_meta}
        self.made_storages = {storage(t) for t in tensors(made)} - self.read

    @property
    def random(self):
        return torch.Tag.nondeterministic_seeded in self.function.tags


class Tape(TorchDispatchMode):
    def __init__(self, seed):
        super().__init__()
        self.seed, self.entries, self.recipes = seed, [], {}
        self.made = set()  # storages that an entry made
        self.constants = {}  # the meta tensor that stands for one, and its values, by storage

    def __enter__(self):
        self.modes = [torch.device("meta"), Constants(self)]
        for mode in self.modes:
            mode.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        for mode in reversed(self.modes):
            mode.__exit__(*error)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = {name: value for name, value in (kwargs or {}).items() if name != "generator"}
        if not any(t.is_meta for t in tensors((args, kwargs))) and not on_meta(kwargs):
            return function(*args, **kwargs)
        try:
            made = function(*pytree.tree_map(to_meta, args), **pytree.tree_map(to_meta, kwargs))
        except (NotImplementedError, RuntimeError):
            if function._schema.is_mutable:
                raise
            return self.computed(function, args, kwargs)
        self.record(Entry(len(self.entries), function, args, kwargs, made))
        return made

    def record(self, entry):
        if entry.written or entry.made_storages:
            self.entries.append(entry)
            self.made |= entry.made_storages
            recipes.follow(self.recipes, entry)

    def computed(self, function, args, kwargs):
        """The result of what needs values: item(), a move to the CPU, nonzero()."""
        args, kwargs = pytree.tree_map(self.real, (args, kwargs))
        result = function(*args, **kwargs)
        return result if "device" in kwargs else pytree.tree_map(self.constant, result)

    def constant(self, value):
        if not isinstance(value, torch.Tensor) or value.is_meta:
            return value
        if value.numel() == 0:  # transformers asks one where it is, and draws nothing on meta
            return value
        stand_in = to_meta(value)
        self.constants[storage(stand_in)] = stand_in, value
        return stand_in

    def real(self, value):
        known = isinstance(value, torch.Tensor) and value.is_meta
        return self.values(value)[0] if known else value

    def knows(self, tensor):
        return storage(tensor) in self.made or storage(tensor) in self.constants

    def recipe(self, parameter):
        return recipes.finished(self.recipes.get(storage(parameter)), parameter)

    def values(self, tensor):
        """The values of a meta tensor, and the indices of the draws that they come from."""
        needed = self.needed(storage(tensor))
        memory = {at: value.untyped_storage().clone() if any(at in e.written for e in needed)
                  else value.untyped_storage() for at, (_, value) in self.constants.items()}
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for entry in needed:
                replay(entry, memory, self.seed)
        draws = {entry.index for entry in needed if entry.random}
        return in_memory(tensor, memory).clone(), draws

    def needed(self, target):
        """The entries that the memory's contents come from, in their order."""
        storages, needed = {target}, []
        for entry in reversed(self.entries):
            if storages & (entry.written | entry.made_storages):
                needed.append(entry)
                storages |= entry.read
        return needed[::-1]


def replay(entry, memory, seed):
    def real(value):
        return in_memory(value, memory) if is_meta(value) else value

    args, kwargs = pytree.tree_map(real, (entry.args, entry.kwargs))
    if on_meta(kwargs):
        kwargs["device"] = torch.device("cpu")
    if entry.random:
        torch.manual_seed(seed * 0x9E3779B97F4A7C15 + entry.index & (1 << 63) - 1)
    results = pytree.tree_leaves(entry.function(*args, **kwargs))
    if "empty" in entry.function._schema.name:
        results[0].zero_()  # or equal exports would differ
    for made, result in zip(pytree.tree_leaves(entry.made), results, strict=True):
        if is_meta(made) and storage(made) in entry.made_storages:
            memory[storage(made)] = as_laid_out(result, made).untyped_storage()


def as_laid_out(result, made):
    """Kernels may lay out their results otherwise than on the meta device."""
    if (result.stride(), result.storage_offset()) == (made.stride(), made.storage_offset()):
        return result
    size = made.untyped_storage().nbytes() // made.element_size()
    copy = torch.empty(size, dtype=made.dtype, device="cpu")
    copy.as_strided(made.shape, made.stride(), made.storage_offset()).copy_(result)
    return copy


def in_memory(tensor, memory):
    if storage(tensor) not in memory:
        raise RuntimeError("a tensor of the meta device has no values")
    empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return empty.set_(memory[storage(tensor)], tensor.storage_offset(), tensor.shape,
                      tensor.stride())


def storage(tensor):
    return tensor.untyped_storage()._cdata


def alias(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def is_meta(value):
    return isinstance(value, torch.Tensor) and value.is_meta


def to_meta(value):
    return value.detach().to("meta") if isinstance(value, torch.Tensor) and not value.is_meta \
        else value


def on_meta(kwargs):
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "meta"


def tensors(values):
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def written(function, args, kwargs):
    """The tensors of arguments that the operator writes to."""
    given = arguments(function, args, kwargs)
    return tensors([given[argument.name] for argument in function._schema.arguments
                    if argument.alias_info is not None and argument.alias_info.is_write])
