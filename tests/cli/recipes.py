"""A job's whole recipe in plain PyTorch: frozen parameters, groups, clipping, schedules of
transformers, bf16."""

import fnmatch
import functools
from pathlib import Path

import yaml

from pipelines import Reference, torch

transformers = __import__("pytest").importorskip("transformers")


def matches(pattern, name):
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, pattern + ".*")


def schedule(optimizer, settings, steps):
    """Of Hugging Face's transformers; none for a constant rate."""
    warmup, decay = settings.get("warmup_steps", 0), settings.get("decay", "constant")
    if decay == "cosine":
        return transformers.get_cosine_with_min_lr_schedule_with_warmup(
            optimizer, warmup, steps, min_lr=settings.get("final_learning_rate", 0.0))
    if decay == "linear":
        return transformers.get_linear_schedule_with_warmup(optimizer, warmup, steps)
    return transformers.get_constant_schedule_with_warmup(optimizer, warmup)


class Recipe(Reference):
    """The model of a plan trained as its job says."""

    def __init__(self, plan, module=None):
        super().__init__(plan, module)
        self.job = yaml.safe_load(Path(plan).read_text())["job"]
        self.recipe = self.job["optimizer"]
        for name, parameter in self.parameters.items():
            frozen = any(matches(pattern, name) for pattern in self.recipe.get("frozen", []))
            parameter.requires_grad_(not frozen)
        self.trained = {name: p for name, p in self.parameters.items() if p.requires_grad}
        self.stepped = self.trained  # what the optimizer sees

    def groups(self):
        """One for each parameter, as simple as can be."""
        known = {"learning_rate": "lr", "weight_decay": "weight_decay"}
        for name, parameter in self.stepped.items():
            own = {"params": [parameter]}
            if self.recipe.get("no_decay") == "norms_and_biases" and parameter.dim() < 2:
                own["weight_decay"] = 0.0
            for group in self.recipe.get("groups", []):
                if any(matches(pattern, name) for pattern in group["parameters"]):
                    own |= {known[key]: value for key, value in group.items() if key in known}
                    break
            yield own

    def optimizer(self):
        kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[self.recipe["kind"]]
        common = {"weight_decay", "momentum", "betas"} & self.recipe.keys()
        return kind(list(self.groups()), lr=self.recipe["learning_rate"],
                    **{key: self.recipe[key] for key in common})

    def train(self, steps):
        """Losses, the first gradients, and the norms before clipping."""
        optimizer, losses, gradients, norms = self.optimizer(), [], {}, []
        rates = schedule(optimizer, self.recipe, self.job["steps"])
        for step in range(steps):
            losses.append(self.backward(step))
            if step == 0:
                gradients = {name: p.grad.clone() for name, p in self.stepped.items()
                             if p.grad is not None}
            if "clip_norm" in self.recipe:
                norms.append(float(torch.nn.utils.clip_grad_norm_(
                    self.stepped.values(), self.recipe["clip_norm"], error_if_nonfinite=True)))
            optimizer.step()
            rates.step()
            optimizer.zero_grad()
        return losses, gradients, norms


def leaves_of(module, apart):
    """Puts leaves of one memory in place of an exported module's parameters: one for each operator
    that reads them, or one for all. Returns them under the first of the parameter's names, those
    read first before."""
    leaves, first = {}, {}
    for name, parameter in list(module.named_parameters()):
        leaves.setdefault(first.setdefault(parameter.data_ptr(), name), [])
    for node in [node for node in module.graph.nodes if node.op == "get_attr"]:
        memory = (module.get_parameter(node.target)
                  if node.target in dict(module.named_parameters()) else None)
        if memory is None:
            continue
        own = leaves[first[memory.data_ptr()]]
        for user in list(node.users):
            if apart or not own:
                own.append(torch.nn.Parameter(memory.detach()))
                module.register_parameter(f"{node.name}_{len(own)}", own[-1])
            with module.graph.inserting_before(node):
                user.replace_input_with(node, module.graph.get_attr(f"{node.name}_{len(own)}"))
    module.recompile()
    return leaves


class MixedRecipe(Recipe):
    """A module of bfloat16: its gradients are added up in float32 microbatch by microbatch, the
    loss is that of its output in float32, and the optimizer steps float32 copies of the parameters,
    which they then become, rounded. `apart`: those of a parameter's several uses are added up in
    float32 too, and not in bfloat16 by autograd."""

    def __init__(self, plan, apart=True):
        super().__init__(plan)
        assert all(p.dtype == torch.bfloat16 for p in self.parameters.values())
        leaves = leaves_of(self.module, apart)
        self.trained = {name: self.trained[name] for name in leaves if name in self.trained}
        self.stepped = {name: p.detach().float() for name, p in self.trained.items()}
        self.sums = {name: [None] * len(leaves[name]) for name in self.trained}
        self.magnitudes = {name: 0 for name in self.trained}  # sums of absolute values
        for name in self.trained:
            for use, leaf in enumerate(leaves[name]):
                leaf.register_post_accumulate_grad_hook(functools.partial(self.add, name, use))

    def add(self, name, use, leaf):
        gradient, before = leaf.grad.float(), self.sums[name][use]
        self.sums[name][use] = gradient if before is None else before + gradient
        self.magnitudes[name] += gradient.abs()
        leaf.grad = None

    def loss(self, output, target):
        return super().loss(output.float(), target)

    def round_masters(self):
        with torch.no_grad():
            for name, parameter in self.trained.items():
                parameter.copy_(self.stepped[name])

    def backward(self, step):
        self.round_masters()
        total = super().backward(step)
        for name, uses in self.sums.items():
            self.stepped[name].grad = sum(uses[1:], uses[0])
            self.sums[name] = [None] * len(uses)
        return total

    def train(self, steps):
        result = super().train(steps)
        self.round_masters()
        return result
