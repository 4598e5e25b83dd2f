"""What penstock refuses before it simulates, and what is no mistake."""

import subprocess

import pytest

from simulating import PENSTOCK, STUDY, TIMES, refused


@pytest.mark.parametrize("arguments, texts", [
    ([], ["nothing to simulate", "--schedule NAME"]),
    (["plan.yaml", *STUDY], ["exclude each other"]),
    (["--schedule", "1f1", "--ranks", 2, "--microbatches", 2],
     ["--schedule", "`1f1`", "Did you mean 1f1b?"]),
    (["--schedule", "1f1b", "--microbatches", 2, *TIMES], ["--ranks: not given"]),
    (["--schedule", "1f1b", "--ranks", 2, *TIMES], ["--microbatches: not given"]),
    (STUDY, ["--forward: not given", "0F0", "--forward 1ms"]),
    ([*STUDY, "--forward", "1ms"], ["--backward: not given", "B0"]),
    ([*STUDY, "--forward", "1ms", "--backward-input", "1ms"], ["--backward-weight: not given"]),
    ([*STUDY, *TIMES, "--backward-input", "1ms"], ["--backward", "either the whole"]),
    ([*STUDY, *TIMES, "--bandwidth", "1GB/s"], ["--bandwidth", "--message 16MB"]),
    ([*STUDY, *TIMES, "--message", "1MB", "--bandwidth", "0"],
     ["--bandwidth", "`0` moves nothing"]),
    ([*STUDY, *TIMES, "--memory", "1GB"], ["--memory", "--saved 64MB"]),
    ([*STUDY, *TIMES, "--saved-weight", "1GB"], ["--saved-weight", "--saved 64MB"]),
    ([*STUDY, *TIMES, "--saved", "4EiB"], ["--saved"]),
    ([*STUDY, *TIMES, "--saved", "1000000TB"], ["--saved", "out of range"]),
    ([*STUDY, "--forward", "1parsec", "--backward", "1ms"], ["--forward", "1parsec"]),
    ([*STUDY, "--forward", "nan", "--backward", "1ms"], ["--forward", "nan"]),
    ([*STUDY, "--forward", "1e300", "--backward", "1ms"], ["--forward", "out of range"]),
    ([*STUDY, *TIMES, "--latency=-1ms"], ["--latency", "negative"]),
    (["--schedule", "1f1b", "--ranks", 0, "--microbatches", 2], ["--ranks", "0"]),
    (["--schedule", "1f1b", "--ranks", "two", "--microbatches", 2], ["--ranks", "two"]),
    (["--schedule", "1f1b", "--ranks", 16000000, "--microbatches", 16000000, *TIMES],
     ["16000000", "more than"]),
    ([*STUDY, *TIMES, "--forwards", "1ms"],
     ["simulate", "`--forwards`", "Did you mean --forward?"]),
    (["--schedule", "1f1b", "--ranks", 64, "--microbatches", 4096, *TIMES,
      "--html", "x.html"],
     ["--html", "1556480 actions", "fewer microbatches"]),
    ([*STUDY, *TIMES, "--html", "no/such/x.html"], ["no/such/x.html"]),
    (["plan.yaml", "--forward", "1ms"], ["--forward", "does not go with a plan"]),
    (["--program", "p.csv", "--ranks", 2], ["--ranks", "--program"]),
    (["--program", "no/such.csv", *TIMES], ["no/such.csv"]),
    (["no/such.yaml"], ["no/such.yaml"]),
])
def test_a_mistake_is_refused_with_its_cure(arguments, texts):
    message = refused(*arguments)
    for text in texts:
        assert text in message


def test_an_unknown_command_is_refused_with_a_suggestion():
    done = subprocess.run([str(PENSTOCK), "simulat"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "`simulat`" in done.stderr and "Did you mean simulate?" in done.stderr


def test_help_of_a_command_is_its_help_page():
    def page(*words):
        return subprocess.run([str(PENSTOCK), *words], capture_output=True, text=True, timeout=60)

    assert page("help").stdout == page("--help").stdout
    for command in ("profile", "plan", "simulate", "execute", "serve", "compare", "export", "show"):
        assert page("help", command).stdout == page(command, "--help").stdout
        assert "penstock help COMMAND" in page("help").stdout
    unknown = page("help", "simulat")
    assert unknown.returncode == 2 and "Did you mean simulate?" in unknown.stderr
    assert page("help", "plan", "show").returncode == 2


def test_help_and_version_are_no_mistakes():
    for arguments, text in [(["--version"], "penstock 0."), (["--help"], "simulate"),
                            (["simulate", "--help"], "--stages-per-rank")]:
        done = subprocess.run([str(PENSTOCK), *arguments], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0 and text in done.stdout and done.stderr == ""
