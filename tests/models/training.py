"""Trains a module in plain PyTorch, one microbatch after the other, to compare pipelined runs with.

Replicas have the same parameters and each its own buffers, as running statistics of batch norm are
kept under data parallelism. The loss of a step is the mean over the microbatches of all replicas.
"""

import torch

OPTIMIZERS = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}


class Training:
    """`inputs` by name and `target`, first dimension: samples; `loss`, `optimizer` as in a job,
    the loss by name or as {kind, label_smoothing}."""

    def __init__(self, module, inputs, target, *, loss, optimizer, microbatches, microbatch,
                 replicas=1):
        self.module, self.inputs, self.target = module, inputs, target
        loss = {"kind": loss} if isinstance(loss, str) else loss
        self.kind, self.smoothing = loss["kind"], loss.get("label_smoothing", 0.0)
        self.settings = dict(optimizer)
        self.microbatches, self.size, self.replicas = microbatches, microbatch, replicas
        self.parameters = dict(module.named_parameters())
        self.buffers = [{name: buffer.clone() for name, buffer in module.named_buffers()}
                        for _ in range(replicas)]

    def microbatch(self, step, index):
        """Number `index` of a step, counted over all replicas; samples start over at the end."""
        first = (step * self.microbatches * self.replicas + index) * self.size
        samples = len(next(iter(self.inputs.values())))
        rows = [(first + k) % samples for k in range(self.size)]
        return ({name: tensor[rows] for name, tensor in self.inputs.items()},
                None if self.target is None else self.target[rows])

    def loss(self, output, target):
        if self.kind == "output":
            return output
        if self.kind == "mse":
            return torch.nn.functional.mse_loss(output, target)
        if self.kind == "bce_with_logits":
            return torch.nn.functional.binary_cross_entropy_with_logits(output, target)
        return torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten(),
                                                 label_smoothing=self.smoothing)

    def backward(self, step):
        """Accumulates the gradients of one step and returns its loss."""
        count, total = self.microbatches * self.replicas, 0.0
        for replica, own in enumerate(self.buffers):
            held = dict(self.module.named_buffers())
            for name, buffer in held.items():
                buffer.copy_(own[name])
            for index in range(replica * self.microbatches, (replica + 1) * self.microbatches):
                inputs, target = self.microbatch(step, index)
                loss = self.loss(self.module(**inputs), target)
                (loss / count).backward()
                total += loss.item() / count
            for name, buffer in self.module.named_buffers():  # others, where forward assigns them
                own[name].copy_(buffer)
        return total

    def optimizer(self):
        settings = dict(self.settings)
        kind = OPTIMIZERS[settings.pop("kind")]
        return kind(self.parameters.values(), lr=settings.pop("learning_rate"), **settings)

    def gradients(self):
        return {name: p.grad.clone() for name, p in self.parameters.items() if p.grad is not None}

    def train(self, steps):
        """Losses of the steps, and the gradients of the first."""
        optimizer, losses, gradients = self.optimizer(), [], {}
        for step in range(steps):
            losses.append(self.backward(step))
            if step == 0:
                gradients = self.gradients()
            optimizer.step()
            optimizer.zero_grad()
        return losses, gradients
