"""`execute --shrink` that cannot be: every process refuses it at start."""

import subprocess

import pytest

from launchers import ranks_by_hand
from pipelines import PENSTOCK, clean_environment, good_plan, needs_backend

pytestmark = needs_backend


def refusals(plan, *options):
    command = [PENSTOCK, "execute", plan, "--shrink", *options]
    results = ranks_by_hand([command] * 2)
    assert [status for status, _, _ in results] == [2, 2], results
    return [errors for _, _, errors in results]


@pytest.mark.parametrize(("options", "told"), [
    ([], "only runs that survive failures go on with fewer ranks"),
    (["--survive", "auto"], "only runs that survive failures go on with fewer ranks"),
    (["--survive", "local"], "another plan goes on from a checkpoint, and none is made"),
    (["--survive", "local", "--save", "saved"], "names no profile")])
def test_what_it_needs_is_told(tmp_path, options, told):
    for errors in refusals(good_plan(tmp_path), *options):
        assert f"--shrink: {told}" in errors.replace(f"{tmp_path}/plan.yaml ", ""), errors


def test_a_profile_that_is_gone_is_told(tmp_path):
    plan = good_plan(tmp_path, profile={"path": str(tmp_path / "none.json")})
    for errors in refusals(plan, "--survive", "local", "--save", tmp_path / "saved"):
        assert f"{tmp_path}/none.json: cannot be read" in errors, errors


def test_alone_it_is_refused(tmp_path):
    done = subprocess.run([PENSTOCK, "execute", good_plan(tmp_path), "--shrink", "--survive",
                           "local"], capture_output=True, text=True, env=clean_environment(),
                          check=False)
    assert done.returncode == 2 and "--shrink: processes of a launcher are lost" in done.stderr
