"""penstock plan --sweep: a row for each value, as text and JSON; rows without a plan; mistakes."""

import json
import shlex

import pytest
import yaml

from planning import PENSTOCK, ROOT, make_profile, run, write_meta_job

DEVICES = ROOT / "configs" / "devices"
TABLE = """\
penstock: layers
global_batch: 8
sizes:
  - microbatch: 2
    layers:
      - {name: embedding, forward: 1ms, backward: 2ms, static: 40MB, gradient: 10MB, output: 1MB}
      - {name: block, count: 6, forward: 10ms, backward: 20ms, static: 10MB, gradient: 3MB,
         saved: 9MB, output: 1MB}
      - {name: head, forward: 2ms, backward: 4ms, static: 40MB, gradient: 10MB}
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "layers.yaml"
    path.write_text(TABLE)
    return path


@pytest.fixture
def estimated(tmp_path):
    """A profile that was estimated for an H100."""
    write_meta_job(tmp_path)
    return estimate(tmp_path, DEVICES / "h100.yaml", "h100.json")


def estimate(folder, spec, output):
    done = run(PENSTOCK, "profile", folder / "job.yaml", "--device", "estimate", "--spec", spec,
               "-o", folder / output)
    assert done.returncode == 0, done.stderr
    return folder / output


def sweep(costs, *arguments):
    return run(PENSTOCK, "plan", costs, *arguments, cwd=costs.parent)


def swept(costs, *arguments):
    done = sweep(costs, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def planned(costs, *arguments):
    """The plan that the same flags make without a sweep."""
    done = sweep(costs, *arguments, "-o", "one.yaml")
    assert done.returncode == 0, done.stderr
    return yaml.safe_load((costs.parent / "one.yaml").read_text())


def check_row(row, plan):
    """A row tells what its plan says."""
    prediction = plan["prediction"]
    assert row["step_s"] == pytest.approx(prediction["step_s"], rel=1e-5)
    assert row["lower_bound_s"] == pytest.approx(prediction["lower_bound_s"], rel=1e-5)
    assert row["peak_memory_bytes"] == max(prediction["peak_memory_bytes"])
    for key in ("schedule", "data_parallel", "microbatches", "microbatch"):
        assert row[key] == plan[key]
    assert row["optimizer_state"] == plan.get("optimizer_state", "replicated")
    assert row["ranks"] * row["stages_per_rank"] == len(plan["stages"])
    assert row["ranks"] == 1 + max(stage["rank"] for stage in plan["stages"])
    devices = row["ranks"] * row["data_parallel"]
    assert row["device_seconds"] == pytest.approx(row["step_s"] * devices)
    assert row["samples_per_s"] == pytest.approx(row["global_batch"] / row["step_s"])


def test_each_number_of_ranks_has_the_plan_that_it_has_alone(table):
    found = swept(table, "--sweep", "ranks=1,2,4", "--schedule", "gpipe,1f1b")
    assert found["sweep"] == {"ranks": [1, 2, 4]}
    assert [row["values"] for row in found["rows"]] == [{"ranks": 1}, {"ranks": 2}, {"ranks": 4}]
    for row in found["rows"]:
        check_row(row, planned(table, "--schedule", "gpipe,1f1b", "--ranks",
                               row["values"]["ranks"]))
    rates = [row["samples_per_s"] for row in found["rows"]]
    costs = [row["device_seconds_per_sample"] for row in found["rows"]]
    assert found["fastest"] == rates.index(max(rates))
    assert costs[found["cheapest"]] == pytest.approx(min(costs), rel=1e-8)


def test_the_flags_of_a_row_make_its_plan(table):
    found = swept(table, "--schedule", "gpipe,1f1b", "--fastest", "--sweep", "memory=150MB,400MB",
                  "--sweep", "ranks=2,4")
    for row in found["rows"]:
        assert "in_files" not in row
        check_row(row, planned(table, *row["flags"]))


def test_the_command_that_is_printed_writes_the_fastest_plan(table):
    text = sweep(table, "--sweep", "ranks=1,4", "--schedule", "1f1b").stdout
    command = text.split("next       ")[1]
    done = run(PENSTOCK, *shlex.split(command)[1:], cwd=table.parent)
    assert done.returncode == 0, done.stderr
    rows = swept(table, "--sweep", "ranks=1,4", "--schedule", "1f1b")
    check_row(rows["rows"][rows["fastest"]],
              yaml.safe_load((table.parent / "plan.yaml").read_text()))


def test_the_table_lines_up_and_marks_the_fastest_and_the_cheapest(table):
    done = sweep(table, "--sweep", "ranks=1,2,4")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    head = next(at for at, line in enumerate(lines) if "samples/s" in line)
    rows = lines[head + 1:head + 4]
    end = lines[head].index("step") + len("step")
    assert all(row[end - 1] == "s" and row[end] == " " for row in rows)
    assert sum("*" in row for row in rows) == 1 and sum("$" in row for row in rows) == 1
    assert "* fastest  ranks=4: " in done.stdout and "$ cheapest ranks=" in done.stdout
    assert "bound" not in lines[head]
    assert "bound" in sweep(table, "--sweep", "ranks=1", "--verbose").stdout


def test_a_value_for_which_nothing_fits_is_a_row_that_says_how_much_would(table):
    done = sweep(table, "--ranks", 2, "--sweep", "memory=50MB,1GB")
    assert done.returncode == 0, done.stderr
    assert "no plan" in done.stdout and "memory=50MB: --memory: no plan fits in" in done.stdout
    assert "It would fit with" in done.stdout
    rows = swept(table, "--ranks", 2, "--sweep", "memory=50MB,1GB")["rows"]
    assert "too much" in rows[0]["problem"] and "\n" not in rows[0]["problem"]
    assert "step_s" not in rows[0]
    assert "problem" not in rows[1] and rows[1]["memory_bytes"] == 10**9


def test_where_no_row_has_a_plan_the_message_is_that_of_the_first(table):
    done = sweep(table, "--sweep", "memory=20MB,30MB", "--html", "page.html")
    alone = sweep(table, "--memory", "20MB", "-o", "plan.yaml")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == alone.stderr.split("warning")[0]
    assert [path.name for path in table.parent.iterdir()] == ["layers.yaml"]


def test_two_sweeps_make_every_pair(table):
    found = swept(table, "--sweep", "ranks=2,4", "--sweep", "memory=150MB,400MB")
    assert [tuple(row["values"].values()) for row in found["rows"]] == [
        (2, "150MB"), (2, "400MB"), (4, "150MB"), (4, "400MB")]
    memory = {"memory": ["150MB", "400MB"]}
    assert found["sweep"] == {"ranks": [2, 4], **memory}
    for row in found["rows"]:
        assert row["peak_memory_bytes"] <= int(row["values"]["memory"][:-2]) * 10**6


def test_bandwidth_is_that_of_the_profile_as_simulate_sets_it(tmp_path):
    profile = make_profile(tmp_path, "pippy")
    flags = ["--schedule", "gpipe", "--data-parallel", 1, "--microbatches", 4]
    found = swept(profile, "--sweep", "bandwidth=1MB/s,100GB/s", "--split", "layer0:end", *flags)
    assert found["sweep"] == {"links.bandwidth": ["1MB/s", "100GB/s"]}
    slow, fast = found["rows"]
    assert slow["in_files"] == {"links.bandwidth": "1MB/s"} and slow["step_s"] > fast["step_s"]
    planned(profile, "--split", "layer0:end", *flags)
    for row in found["rows"]:
        done = run(PENSTOCK, "simulate", tmp_path / "one.yaml", "--json", "--set",
                   f"links.bandwidth={row['values']['links.bandwidth']}")
        assert json.loads(done.stdout)["step_s"] == pytest.approx(row["step_s"], rel=1e-12)


def test_the_optimizers_state_is_named_where_a_plan_shards_it(tmp_path):
    profile = make_profile(tmp_path, "pippy")
    flags = ["--schedule", "gpipe", "--data-parallel", 2, "--sweep", "ranks=2"]
    row, = swept(profile, "--optimizer-state", "sharded", *flags)["rows"]
    assert row["optimizer_state"] == "sharded"
    check_row(row, planned(profile, *row["flags"]))
    table = sweep(profile, "--optimizer-state", "sharded", *flags).stdout
    assert "optimizer state" in table and "  sharded" in table
    assert swept(profile, *flags)["rows"][0]["optimizer_state"] == "replicated"
    assert "optimizer state" not in sweep(profile, *flags).stdout


def test_links_are_those_of_the_cluster_where_there_is_one(estimated):
    cluster = ROOT / "configs" / "clusters" / "h100_2_nodes.yaml"
    found = swept(estimated, "--cluster", cluster, "--split", "blocks.0:end", "--data-parallel", 8,
                  "--sweep", "network.bandwidth=1MB/s,100GB/s",
                  "--sweep", "links.bandwidth=1MB/s,100GB/s")
    slow, narrow_network, narrow_links, fast = (row["step_s"] for row in found["rows"])
    assert slow >= max(narrow_network, narrow_links) >= min(narrow_network, narrow_links) > fast


def test_another_global_batch_has_the_sizes_that_divide_it(table):
    found = swept(table, "--sweep", "global_batch=4,7,16", "--ranks", 2)
    small, odd, large = found["rows"]
    assert small["microbatches"] * small["microbatch"] * small["data_parallel"] == 4
    assert large["microbatches"] * large["microbatch"] * large["data_parallel"] == 16
    assert large["global_batch"] == 16 and large["in_files"] == {"global_batch": 16}
    assert "no measured microbatch size divides the batch of 7" in odd["problem"]


def test_devices_are_each_estimated(tmp_path, estimated):
    specs = [DEVICES / "h100.yaml", DEVICES / "l4.yaml"]
    found = swept(estimated, "--sweep", f"device={specs[0]},{specs[1]}", "--ranks", 2)
    assert [row["in_files"]["device"] for row in found["rows"]] == [str(path) for path in specs]
    other = estimate(tmp_path, specs[1], "l4.json")
    for row, profile in zip(found["rows"], [estimated, other], strict=True):
        check_row(row, planned(profile, "--ranks", 2))
    assert found["fastest"] == 0
    text = sweep(estimated, "--sweep", f"device={specs[0]}").stdout
    assert "costs      estimated from the figures of each device" in text
    # Links are set after the estimate, which has links of its own, whatever comes first.
    both = [swept(estimated, "--ranks", 2, "--schedule", "1f1b", "--data-parallel", 2,
                  *[word for one in order for word in ("--sweep", one)])["rows"][0]["step_s"]
            for order in (["bandwidth=1MB/s", f"device={specs[1]}"],
                          [f"device={specs[1]}", "bandwidth=1MB/s"])]
    assert both[0] == both[1] > found["rows"][1]["step_s"]


def test_devices_of_what_was_not_estimated_are_refused(tmp_path, table):
    for costs, words in [(make_profile(tmp_path, "pippy"), "was measured on its device"),
                         (table, "is a table of layers")]:
        done = sweep(costs, "--sweep", f"device={DEVICES / 'l4.yaml'}")
        assert done.returncode == 2 and done.stdout == ""
        assert words in done.stderr and "--device estimate --spec" in done.stderr


def test_the_page_does_not_take_the_place_of_a_device_file(estimated):
    spec = estimated.parent / "l4.yaml"
    spec.write_text((DEVICES / "l4.yaml").read_text())
    done = sweep(estimated, "--sweep", f"device={spec}", "--html", spec)
    assert done.returncode == 2 and "which would be lost" in done.stderr
    assert spec.read_text() == (DEVICES / "l4.yaml").read_text()


def test_the_same_sweep_prints_the_same(table):
    flags = ["--sweep", "ranks=1,2,3,4", "--sweep", "memory=100MB,1GB"]
    for more in ([], ["--json"]):
        assert sweep(table, *flags, *more).stdout == sweep(table, *flags, *more).stdout


@pytest.mark.parametrize("flags, words", [
    (["--sweep", "rank=2"], ["there is no key `rank`", "Did you mean ranks?", "global_batch"]),
    (["--sweep", "ranks"], ["--sweep ranks: no values", "ranks=V1,V2"]),
    (["--sweep", "ranks=2,,4"], ["--sweep ranks: an empty value"]),
    (["--sweep", "ranks=2,two"], ["--sweep ranks: `two`", "integer"]),
    (["--sweep", "ranks=0"], ["--sweep ranks: `0`"]),
    (["--sweep", "ranks=2,2"], ["--sweep ranks: 2 is given twice"]),
    (["--sweep", "ranks=2", "--sweep", "ranks=4"], ["--sweep ranks: given twice", "commas"]),
    (["--sweep", "memory=3 bananas"], ["--sweep memory", "bananas"]),
    (["--sweep", "bandwidth=0"], ["--sweep links.bandwidth", "`0` moves nothing"]),
    (["--sweep", "bandwidth=1GB/s", "--sweep", "links.bandwidth=2GB/s"], ["given twice"]),
    (["--sweep", "network.latency=1ms"], ["--sweep network.latency", "--cluster"]),
    (["--sweep", "ranks=2", "--ranks", "2"], ["--sweep ranks: does not go with --ranks"]),
    (["--sweep", "memory=1GB", "--memory", "2GB"], ["does not go with --memory"]),
    (["--sweep", "ranks=2", "-o", "plan.yaml"], ["-o: a sweep makes many plans", "--json"]),
    (["--sweep", "ranks=2", "--explain"], ["--explain", "Leave it out"]),
    (["--sweep", "device=nowhere.yaml"], ["--sweep device"]),
    (["--sweep", "ranks=" + ",".join(map(str, range(1, 52))), "--sweep", "memory=1GB,2GB"],
     ["51 of ranks x 2 of memory", "more than 100 plans", "fewer"]),
    (["--json", "-o", "plan.yaml"], ["--json requires --sweep"]),
    ([], ["--output is required"]),
])
def test_a_mistake_is_one_message_and_nothing_is_written(table, flags, words):
    done = sweep(table, *flags)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("penstock: ") == 1
    for word in words:
        assert word in done.stderr
    assert [path.name for path in table.parent.iterdir()] == ["layers.yaml"]
