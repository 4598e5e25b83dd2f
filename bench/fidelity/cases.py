"""What is trained: eight models that differ in kind, and the plans of each.

Sizes make a step on two cores take 100 to 500 ms (`large`) or 10 to 50 ms; a GPU has its own. With
--quick everything is as small as a model's file says.
"""

import importlib.util
import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path

MODELS = Path(__file__).parent / "models"
QUICK_BATCH = 8


@dataclass(frozen=True)
class Shape:
    """A plan as one would write it by hand. Stages lie on ranks in a loop, or as a V; `shares` is
    the part of the work of each, equal unless given."""

    schedule: str
    ranks: int = 2
    per_rank: int = 1
    microbatches: int = 4
    replicas: int = 1
    shares: tuple = ()
    recompute: tuple = ()  # stages
    v: bool = False

    @property
    def processes(self):
        return self.ranks * self.replicas

    def rank_of_stages(self):
        ranks = list(range(self.ranks))
        if self.v:
            return ranks + ranks[::-1]
        return ranks * self.per_rank


CHOSEN = {  # what `penstock plan` says of two ranks, by the flags that it is given
    "chosen": (),
    "chosen-pipeline": ("--data-parallel", "1"),
}

SHAPES = {
    "gpipe": Shape("gpipe"),
    "1f1b": Shape("1f1b"),
    "1f1b-8": Shape("1f1b", microbatches=8),
    "looped-bfs": Shape("looped-bfs", per_rank=2),
    "interleaved-1f1b": Shape("interleaved-1f1b", per_rank=2),
    "interleaved-zb": Shape("interleaved-zb", per_rank=2),
    "zb-h1": Shape("zb-h1"),
    "zb-h2": Shape("zb-h2"),
    "zbv": Shape("zbv", per_rank=2, v=True),
    "dualpipev": Shape("dualpipev", per_rank=2, v=True),
    "adaptive": Shape("adaptive", per_rank=2),
    "uneven": Shape("1f1b", shares=(1, 2)),
    "recompute": Shape("gpipe", recompute=(0,)),
    "replicas": Shape("1f1b", ranks=1, replicas=2, microbatches=2),
    "replicated": Shape("1f1b", replicas=2),
    "three-ranks": Shape("1f1b", ranks=3),
    "four-ranks": Shape("1f1b", ranks=4, microbatches=8),
    "whole-1": Shape("1f1b", ranks=1, microbatches=1),
    "whole-2": Shape("1f1b", ranks=1, microbatches=2),
    "whole-4": Shape("1f1b", ranks=1),
    "whole-8": Shape("1f1b", ranks=1, microbatches=8),
    "whole-recompute": Shape("gpipe", ranks=1, recompute=(0,)),
}
# Ranks that share a device take its time in turns: that they have the losses of one rank is all
# that they can show.
SHARING, ALONE = "four-ranks", "whole-8"
# Of any model where there is but one device.
ON_ONE = ("chosen", "whole-1", "whole-2", "whole-4", "whole-8", "whole-recompute")


@dataclass(frozen=True)
class Case:
    name: str
    large: bool  # a step takes more than 100 ms
    batch: int
    plans: tuple  # beside the chosen one
    cpu: dict
    cuda: dict
    loss: str = "cross_entropy"
    file: Path = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "file", MODELS / f"{self.name}.py")

    def settings(self, device, quick):
        return {} if quick else {"cpu": self.cpu, "cuda": self.cuda}[device]

    def global_batch(self, quick):
        return QUICK_BATCH if quick else self.batch

    def plan_names(self, devices):
        """Those that so many devices can run; each of a CPU runs any number of ranks."""
        if devices == 1:
            return ON_ONE
        fitting = [name for name in self.plans if SHAPES[name].processes <= devices]
        return (*CHOSEN, *fitting)

    def module(self):
        """The model's file."""
        spec = importlib.util.spec_from_file_location(f"fidelity_{self.name}", self.file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where transformers looks for it
        spec.loader.exec_module(module)
        return module


def call(function, settings, **more):
    """With those of the settings that it takes."""
    names = inspect.signature(function).parameters
    return function(**{key: value for key, value in (settings | more).items() if key in names})


CASES = {case.name: case for case in (
    Case("parallel_gpt", True, 16,
         ("1f1b", "interleaved-1f1b", "zb-h1", "uneven", "recompute", "four-ranks"),
         cpu={"layers": 8, "hidden": 192, "heads": 4, "sequence": 96, "vocabulary": 256},
         cuda={"layers": 12, "hidden": 768, "heads": 12, "sequence": 512, "vocabulary": 8192}),
    Case("qwen", True, 16,
         ("gpipe", "1f1b-8", "zbv", "interleaved-zb", "replicas", "three-ranks"),
         cpu={"layers": 8, "hidden": 192, "heads": 4, "sequence": 96, "vocabulary": 512},
         cuda={"layers": 12, "hidden": 768, "heads": 12, "sequence": 512, "vocabulary": 8192}),
    Case("translator", True, 16,
         ("1f1b", "looped-bfs", "zb-h2", "adaptive", "recompute", "replicated"),
         cpu={"layers": 4, "hidden": 192, "heads": 4, "sequence": 80, "vocabulary": 512},
         cuda={"layers": 6, "hidden": 768, "heads": 12, "sequence": 512, "vocabulary": 8192}),
    Case("conformer", True, 16,
         ("gpipe", "1f1b-8", "interleaved-1f1b", "dualpipev", "uneven", "replicas"),
         cpu={"layers": 6, "hidden": 144, "heads": 4, "bands": 40, "frames": 160, "width": 15,
              "classes": 40},
         cuda={"layers": 12, "hidden": 512, "heads": 8, "bands": 80, "frames": 1024, "width": 31,
               "classes": 40}),
    Case("convnext", False, 16,
         ("gpipe", "looped-bfs", "zb-h1", "zbv", "uneven", "four-ranks"),
         cpu={"depth": 3, "channels": 32, "side": 32},
         cuda={"depth": 6, "channels": 96, "side": 128}),
    Case("mixer", False, 16,
         ("1f1b", "zb-h2", "interleaved-zb", "dualpipev", "replicas", "three-ranks"),
         cpu={"layers": 6, "channels": 64, "side": 32, "patch": 4},
         cuda={"layers": 12, "channels": 512, "side": 128, "patch": 8}),
    Case("densenet", False, 16,
         ("looped-bfs", "zb-h2", "interleaved-zb", "dualpipev", "adaptive", "recompute"),
         cpu={"depth": 4, "growth": 10, "side": 32},
         cuda={"depth": 12, "growth": 32, "side": 128}),
    Case("denoiser", False, 16,
         ("interleaved-1f1b", "zb-h1", "zbv", "adaptive", "recompute", "replicated"),
         cpu={"levels": 3, "width": 12, "side": 16},
         cuda={"levels": 4, "width": 64, "side": 64}, loss="mse"),
)}
