"""What the tests of the Python module share: pipelines that are fed the samples of a plan's own
data, in its order."""

import os
import sys

import yaml

from pipelines import BUILD, ROOT, clean_environment, load_file

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "cli" / "cluster")]
os.environ["PENSTOCK_BUILD"] = str(BUILD)
for name in set(os.environ) - set(clean_environment()):
    del os.environ[name]  # of a launcher that runs the tests

import launchers  # noqa: F401, for tests that start scripts
import penstock


def batches(plan):
    """The global batches of the plan's data, one epoch after the other, as (inputs, target)."""
    job = yaml.safe_load(plan.read_text())["job"]
    data = load_file(plan.parent / job["data"])
    target, size = data.pop("target", None), job["global_batch"]
    samples = len(next(iter(data.values())))
    step = 0
    while True:
        at = [(step * size + i) % samples for i in range(size)]
        yield ({name: value[at] for name, value in data.items()},
               None if target is None else target[at])
        step += 1


def feed(pipe, plan, steps, **more):
    """The losses of as many steps more."""
    source = batches(plan)
    for _ in range(pipe.steps_done):
        next(source)
    return [pipe.step(**inputs, target=target, **more)
            for _, (inputs, target) in zip(range(steps), source, strict=False)]


def pipeline(plan, **options):
    return penstock.Pipeline(plan, **options)
