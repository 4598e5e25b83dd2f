"""How the parts of a tensor group hold a tensor, and what an embedding of a part's rows gives; all
parts are in one process."""

import re

import torch


class Layout:
    """What a part holds; `gradient` is how its gradient is held."""

    def __init__(self, text):
        self.text, self.kind = text, text[0]
        numbers = [int(number) for number in re.findall(r"\d+", text)]
        self.dimension, self.blocks = (numbers + [1])[:2] if numbers else (0, 1)

    def __str__(self):
        return self.text

    def splits(self, dimension):
        return self.kind == "S" and self.dimension == dimension

    def gradient(self):
        return Layout({"R": "P", "P": "R"}[self.kind]) if self.kind in "RP" else self

    def hold(self, whole, parts, dimension=None):
        """What each part holds; `dimension` is the one that is split, where that is another."""
        along = self.dimension if dimension is None else dimension
        if self.kind == "P":
            terms = [torch.randn_like(whole) for _ in range(parts - 1)]
            return [whole - sum(terms), *terms]
        if self.kind in "IR":
            return [whole.clone() for _ in range(parts)]
        blocks = [block.chunk(parts, along) for block in whole.chunk(self.blocks, along)]
        return [torch.cat([block[part] for block in blocks], along)
                for part in range(parts)]

    def assemble(self, held):
        """The whole; equal copies are checked to be equal."""
        if self.kind == "P":
            return sum(held)
        if self.kind in "IR":
            for copy in held:
                torch.testing.assert_close(copy, held[0], rtol=0, atol=1e-11)
            return held[0]
        blocks = [part.chunk(self.blocks, self.dimension) for part in held]
        return torch.cat([part[block] for block in range(self.blocks) for part in blocks],
                         self.dimension)


def cross_entropy_of_classes(parts, held, *more, **how):
    """Each part's, of what all of them have of the logits; its gradient is that of its own."""
    return [torch.ops.aten.cross_entropy_loss(
                held.assemble([own if part == one else own.detach()
                               for one, own in enumerate(parts)]), *more, **how)
            for part in range(len(parts))]


def embedding_of_rows(weight, ids, held, padding_idx=-1):
    """Of a table of which `held` are the rows, ascending; zeros for ids of other rows."""
    own = torch.searchsorted(held, ids.contiguous()).clamp_max(len(held) - 1)
    padding = (held == padding_idx).nonzero().flatten().tolist()
    found = torch.nn.functional.embedding(own, weight, padding[0] if padding else None)
    return found * (held[own] == ids).unsqueeze(-1)
