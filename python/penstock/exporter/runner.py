"""Runs a functional program on tensors, without writing to any of them.

`program.module()` copies the new buffers back after each call, which both changes the program that
is about to be saved and breaks a backward that saved the old ones. Here they are returned.
"""

import copy

from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from .errors import UserError

HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class Runner:
    def __init__(self, program, graph=None):
        """`graph`: another than the program's, with the same inputs and outputs."""
        self.graph = graph or copy.deepcopy(program.graph_module)
        self.signature = program.graph_signature
        self.held = {spec.target: held_tensor(program, spec)
                     for spec in self.signature.input_specs
                     if spec.kind is not InputKind.USER_INPUT}
        aliases = {}  # one leaf for all names of a tied parameter
        self.parameters = {}
        for name in self.signature.parameters:
            value = self.held[name]
            self.parameters[name] = aliases.setdefault(
                id(value), value.detach().requires_grad_(value.requires_grad))

    def __call__(self, args, kwargs):
        """(user outputs, buffers by name after the call)."""
        inputs = iter(pytree.tree_leaves((args, kwargs)))
        values = [next(inputs) if spec.kind is InputKind.USER_INPUT
                  else self.parameters.get(spec.target, self.held[spec.target])
                  for spec in self.signature.input_specs]
        results = self.graph(*values)
        buffers = {name: self.held[name] for name in self.signature.buffers}
        outputs = []
        for spec, value in zip(self.signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                buffers[spec.target] = value
            else:
                outputs.append(value)
        return outputs, buffers


def held_tensor(program, spec):
    if spec.kind not in HELD:
        raise UserError(f"the model holds '{spec.target}' ({spec.kind.name.lower()}), which is no "
                        "tensor; Penstock cannot read it")
    if spec.target in program.state_dict:
        return program.state_dict[spec.target]
    return program.constants[spec.target]
