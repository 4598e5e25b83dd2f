"""penstock execute as a rank of torchrun."""

import json
import subprocess

import pytest

from pipelines import PENSTOCK, TORCHRUN, clean_environment, execute_json, good_plan, needs_backend

pytestmark = needs_backend


def torchrun(plan, processes, *options):
    if not TORCHRUN.exists():
        pytest.skip("torchrun is not beside the Python that runs the tests")
    return subprocess.run([str(TORCHRUN), "--no-python", "--nproc-per-node", str(processes),
                           "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                           "localhost:0", str(PENSTOCK), "execute", str(plan),
                           *map(str, options)],
                          capture_output=True, text=True, timeout=300, env=clean_environment())


def test_under_torchrun_each_process_is_a_rank(tmp_path):
    plan = good_plan(tmp_path)
    done = torchrun(plan, 2, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["losses"] == execute_json(plan)["losses"]


def test_under_torchrun_rank_0_records_all_ranks(tmp_path):
    done = torchrun(good_plan(tmp_path), 2, "--metrics", tmp_path / "m.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    run = json.loads(done.stdout)
    assert [line["loss"] for line in lines] == run["losses"]
    assert lines[-1]["peak_memory_bytes"] == run["peak_memory_bytes"]
    assert all(0 < line["bubble"] < 1 for line in lines)


def test_under_torchrun_the_number_of_processes_must_fit(tmp_path):
    done = torchrun(good_plan(tmp_path), 3)
    assert done.returncode != 0
    assert "WORLD_SIZE: is 3, but the plan has 2 ranks" in done.stderr


def test_a_launchers_environment_without_its_rest_is_named(tmp_path):
    done = subprocess.run([str(PENSTOCK), "execute", str(good_plan(tmp_path))], capture_output=True,
                          text=True, env={**clean_environment(), "RANK": "0"})
    assert done.returncode == 2 and "WORLD_SIZE" in done.stderr
