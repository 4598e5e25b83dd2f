"""A script may take its time: its ranks wait for it, and none of them is said to hang."""

import math
import time

import pytest

from feeding import batches, penstock, pipeline
from pipelines import good_plan, needs_backend

pytestmark = needs_backend


def test_no_rank_hangs_while_a_script_does_something_else(tmp_path, monkeypatch, recwarn):
    """A rank in a step would be told after 2 s, or 120 s in its first."""
    monkeypatch.setenv("PENSTOCK_HANG_AFTER", "2s")
    plan = good_plan(tmp_path)
    with pipeline(plan, save=tmp_path / "saved") as pipe:
        inputs, target = next(batches(plan))
        for _ in range(3):
            pipe.step(**inputs, target=target)
        with pytest.raises(penstock.LossNotFinite):
            pipe.step(inputs["x"] * math.nan, target=target)
        time.sleep(3)
        pipe.forward(**inputs)
        pipe.save()
        time.sleep(3)
        pipe.step(**inputs, target=target)
    assert not [warning for warning in recwarn if "hang" in str(warning.message)]
