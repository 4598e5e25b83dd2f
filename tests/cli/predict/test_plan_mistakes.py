"""What penstock plan refuses: one message, and nothing is written."""

import pytest

from planning import make_profile, plan


@pytest.mark.parametrize("flags, words", [
    (["--schedule", "1f1"], ["--schedule", "1f1b"]),
    (["--microbatches", "3"], ["3 microbatches", "2, 4"]),
    (["--microbatches", "1", "--data-parallel", "1"], ["8 samples", "2, 4, 8"]),
    (["--stages-per-rank", "50"], ["--stages-per-rank", "units"]),
    (["--schedule", "1f1b", "--stages-per-rank", "3"],
     ["--stages-per-rank: 3, but 1f1b runs one stage on each rank", "interleaved-1f1b"]),
    (["--schedule", "zbv,gpipe", "--stages-per-rank", "3", "--microbatches", "4"],
     ["zbv runs 2 stages on each rank, gpipe runs one stage", "looped-bfs"]),
    (["--schedule", "interleaved-1f1b", "--stages-per-rank", "1"],
     ["interleaved-1f1b runs 2 stages or more", "gpipe, 1f1b, zb-h1"]),
    (["--data-parallel", "5"], ["--data-parallel", "batch of 8", "4, 8"]),
    (["--data-parallel", "4", "--ranks", "2"], ["--data-parallel", "--ranks 4"]),
    (["--stages-per-rank", "none"], ["--stages-per-rank", "none", "auto"]),
    (["--ranks", "0"], ["--ranks"]),
    (["--ranks", "3", "--split", "layer0:end"], ["2 stages"]),
    (["--split", "layer_0:end"], ["layer_0", "layer0"]),
    (["--split", "layer0:end,layer1:beginning"], ["layer1:beginning", "no split"]),
    (["--memory", "10kB"], ["no plan fits", "too much", "per rank"]),
    (["--memory", "10 bananas"], ["bananas"]),
    (["--cluster", "nowhere.yaml"], ["nowhere.yaml"]),
    (["--schedule", "dualpipev", "--ranks", "2", "--microbatches", "2", "--data-parallel", "1"],
     ["dualpipev", "4"]),
    (["--objective", "speed"], ["--objective", "speed", "throughput, memory, cost"]),
])
def test_a_mistake_is_one_message_and_nothing_is_written(tmp_path, flags, words):
    done = plan(tmp_path, make_profile(tmp_path, "pippy"), *flags)
    assert done.returncode == 2
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pippy.json"]


def test_a_coupled_batch_needs_leave(tmp_path):
    profile = make_profile(tmp_path, "transformer-f32")
    refused = plan(tmp_path, profile)
    assert refused.returncode == 2
    assert "--allow-batch-coupling" in refused.stderr
    assert not (tmp_path / "plan.yaml").exists()
    for leave in (["--microbatches", "4"], ["--allow-batch-coupling"]):
        allowed = plan(tmp_path, profile, *leave)
        assert allowed.returncode == 0, allowed.stderr
        assert "influence each other" in allowed.stderr


def test_a_damaged_profile_is_named(tmp_path):
    profile = make_profile(tmp_path, "pippy")
    profile.write_text(profile.read_text()[:1000])
    done = plan(tmp_path, profile)
    assert done.returncode == 2
    assert "pippy.json" in done.stderr
    assert not (tmp_path / "plan.yaml").exists()
