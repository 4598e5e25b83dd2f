"""The batch that a script feeds: which of its arguments are which of the plan's tensors, whether
they fit, and their place in the memory that the ranks share."""

import ctypes
import difflib
import mmap
import zlib

from .errors import InputError

WHOLE = 1 << 16  # bytes; of larger tensors a checksum sums each sample first


class Sample:
    """A tensor of a batch, as `penstock serve` describes it."""

    def __init__(self, description, memory, slots):
        import torch
        self.name, self.shape = description["name"], tuple(description["shape"])
        self.dtype = getattr(torch, description["dtype"])
        self.limit, self.ignored = description["limit"], description["ignored"]
        self.is_target = description["is_target"]
        self.needed = description["offset"] is not None
        self.places = [view(memory, self.dtype, self.shape, slot + description["offset"])
                       for slot in slots] if self.needed else []


def view(memory, dtype, shape, offset):
    """A tensor in shared memory."""
    import torch
    count = 1
    for size in shape:
        count *= size
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset).view(shape)


def shared_memory(descriptor, size):
    """All of it in memory at once: new pages cost more than the copies into them."""
    return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE) if size else None


class Batches:
    """The samples of a step on their way to the ranks, in the slot of that step: where the run
    survives those of the last step stay, which may be done again."""

    def __init__(self, descriptor, batch, descriptions):
        size, self._slots = batch["bytes"], batch["slots"]
        memory = shared_memory(descriptor, size * self._slots)
        slots = [size * slot for slot in range(self._slots)]
        self.samples = [Sample(each, memory, slots) for each in descriptions]
        self._sums = not batch["complete"]  # other scripts feed other ranks, to compare with

    @property
    def inputs(self):
        return tuple(sample.name for sample in self.samples if sample.needed)

    def put(self, step, call, args, kwargs, target=None, with_target=False):
        """Checks the arguments of `call` and copies them to where `step`, the next one, reads them;
        returns what a request says of them: how many samples, and checksums by name."""
        given = self._named(call, args, kwargs)
        if with_target:
            self._add_target(call, given, target)
        taken = [sample for sample in self.samples if with_target or not sample.is_target]
        for sample in taken:
            if sample.name in given:
                given[sample.name] = checked(call, sample, given[sample.name])
            elif sample.needed:
                raise InputError(self._missing(call, sample))
        if not given:  # this rank reads none of them
            return {}
        samples, sums = same_number(call, given), {}
        for sample in taken:
            if sample.name in given:
                tensor = placed(sample, step % self._slots, given[sample.name])
                if self._sums:
                    sums[sample.name] = checksum(tensor)
        return {"samples": samples, "checksums": sums}

    def _named(self, call, args, kwargs):
        """The tensors by the names of the model's inputs."""
        names = [sample.name for sample in self.samples if not sample.is_target]
        given = dict(zip(names, leaves(args), strict=False))
        if len(leaves(args)) > len(names):
            raise InputError(f"{call}: {len(leaves(args))} inputs, but the model takes "
                             f"{len(names)}: {', '.join(names)}; pass the target as target=")
        for keyword, value in kwargs.items():
            for name, leaf in parts(keyword, value, names):
                if name not in names:
                    near = difflib.get_close_matches(name, names, n=1)
                    cure = f"did you mean {near[0]}?" if near else "leave it out"
                    raise InputError(f"{call}: the model has no input {name}; it takes "
                                     f"{', '.join(names)}: {cure}")
                if name in given:
                    raise InputError(f"{call}: {name} is given twice: pass it by its place or by "
                                     "its name")
                given[name] = leaf
        return given

    def _add_target(self, call, given, target):
        wanted = next((sample for sample in self.samples if sample.is_target), None)
        if target is None:
            return
        if wanted is None:
            raise InputError(f"{call}: a target is given, but the model computes its loss itself "
                             "(`loss: output`): leave it out, or pass it by the name of an input")
        given[wanted.name] = target

    @staticmethod
    def _missing(call, sample):
        if sample.is_target:
            return (f"{call}: the target is missing, which the job's loss compares with: pass "
                    "target=")
        return f"{call}: {sample.name} is missing: pass it as to the model's forward"


def leaves(value):
    """The tensors of nested tuples, lists and dictionaries, as torch.export takes them."""
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(each)]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    return [] if value is None else [value]


def parts(keyword, value, names):
    """A nested argument `pair` is the inputs `pair_0`, `pair_1`."""
    inside = [name for name in names if name.startswith(keyword + "_")]
    if keyword in names or not isinstance(value, (list, tuple, dict)) or not inside:
        return [(keyword, value)]
    return zip(inside, leaves(value), strict=False)


def checked(call, sample, value):
    """The value as a tensor that fits. Raises InputError."""
    import torch
    place = f"{call}: {sample.name}"
    if hasattr(value, "__array_interface__"):  # numpy's
        value = torch.as_tensor(value)
    if not isinstance(value, torch.Tensor):
        raise InputError(f"{place} is a {type(value).__name__}: give a torch.Tensor, as "
                         f"torch.tensor({sample.name}) makes one")
    if value.is_meta or value.layout is not torch.strided:
        kind = "on the meta device" if value.is_meta else f"of layout {value.layout}"
        raise InputError(f"{place} is {kind}: give a dense tensor with values")
    check_dtype(place, sample, value)
    check_shape(place, sample, value)
    check_ids(place, sample, value)
    return value.detach()


def check_dtype(place, sample, value):
    def is_id(dtype):
        import torch
        return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool

    if value.dtype == sample.dtype or is_id(value.dtype) and is_id(sample.dtype):
        return
    name = str(sample.dtype)
    raise InputError(f"{place} is {str(value.dtype).removeprefix('torch.')}, the plan takes "
                     f"{name.removeprefix('torch.')}: convert it with .to({name})")


def check_shape(place, sample, value):
    wanted, found = list(sample.shape), list(value.shape)
    if found == wanted:
        return
    if found[1:] == wanted[1:] and found:
        if 0 < found[0] < wanted[0] and not place.startswith("step"):
            return
        cure = "pass drop_last=True to the DataLoader" if found[0] < wanted[0] else \
            "give the DataLoader batch_size=pipe.batch_size"
        raise InputError(f"{place} has {found[0]} samples, the plan takes {wanted[0]}: {cure}")
    if wanted[1:] == found:
        raise InputError(f"{place} is one sample, {found}: the plan takes batches, {wanted}")
    raise InputError(f"{place} is {found}, the plan takes {wanted}: give samples of that shape, or "
                     "export the model for these")


def same_number(call, given):
    """The samples of each tensor."""
    (first, value), *others = given.items()
    for name, other in others:
        if len(other) != len(value):
            raise InputError(f"{call}: {first} has {len(value)} samples, {name} has {len(other)}: "
                             "pass equally many")
    return len(value)


def check_ids(place, sample, value):
    if sample.limit is None or value.numel() == 0:
        return
    low, high = (int(bound) for bound in value.aminmax())
    if 0 <= low and high < sample.limit:
        return
    wrong = (value < 0) | (value >= sample.limit)
    if sample.ignored is not None:
        wrong &= value != sample.ignored
    if not wrong.any():
        return
    at = wrong.nonzero()[0].tolist()
    also = "" if sample.ignored is None else f" and {sample.ignored}"
    raise InputError(f"{place}{at} is {int(value[tuple(at)])}, allowed are 0 to "
                     f"{sample.limit - 1}{also}: correct the data, or export the model with a "
                     "larger vocabulary")


def placed(sample, slot, value):
    """Copies it to where ranks read it; returns it in the plan's dtype."""
    if not sample.needed:
        return value.to("cpu", sample.dtype)
    place = sample.places[slot][:len(value)]
    if value.is_cpu and value.dtype == place.dtype and value.is_contiguous():
        # By this thread alone: those of OpenMP would stay awake for a while, on the ranks' cores.
        ctypes.memmove(place.data_ptr(), value.data_ptr(), place.nbytes)
    else:
        place.copy_(value)
    return place


def checksum(tensor):
    """Of a batch: other samples, or the same in another order, have another one."""
    import torch
    flat = tensor.contiguous().view(tensor.shape[0], -1).view(torch.uint8)
    if flat.numel() > WHOLE:
        words = flat.view(torch.int32) if flat.shape[1] % 4 == 0 else flat
        flat = words.sum(1, dtype=torch.int64).view(torch.uint8)
    flat = flat.contiguous()
    return zlib.crc32((ctypes.c_char * flat.numel()).from_address(flat.data_ptr()))
