"""Files are told apart by their content; a wrong one is answered with the command that makes the
right one. Messages about damaged files are in Penstock's words."""

import shutil

import pytest

from handing import refused, succeeds

KINDS = {"model.pt2": "a model", "job.yaml": "a job", "plan.yaml": "a plan",
         "cluster.yaml": "a cluster", "device.yaml": "a device", "profile.json": "a profile",
         "layers.yaml": "a table of layers", "trace.json": "a trace",
         "program.csv": "a program (CSV)", "saved": "a checkpoint",
         "saved/step-50/manifest.json": "a checkpoint's manifest",
         "data.safetensors": "a .safetensors", "weights.pt": "what torch.save wrote",
         "page.html": "a page (HTML)", "model.py": "Python code of a model", ".": "a folder",
         "empty": "empty"}

TAKERS = {  # the words before the file, those after it, what is taken, how it is made
    "profile": (["profile"], ["-o", "x"], "job.yaml", "configs/jobs"),
    "--spec": (["profile", "job.yaml", "--device", "estimate", "--spec"], ["-o", "x"],
               "device.yaml", "configs/devices"),
    "--fit": (["profile", "job.yaml", "--device", "estimate", "--spec", "device.yaml", "--fit"],
              ["-o", "x"], "profile.json", "penstock profile"),
    "plan": (["plan"], ["-o", "x"], "profile.json", "penstock profile"),
    "--cluster": (["plan", "profile.json", "--cluster"], ["-o", "x"], "cluster.yaml",
                  "configs/clusters"),
    "simulate": (["simulate"], [], "plan.yaml", "penstock plan"),
    "--program": (["simulate", "--forward", "1ms", "--backward", "1ms", "--program"], [],
                  "program.csv", "penstock export"),
    "execute": (["execute"], [], "plan.yaml", "penstock plan"),
    "--resume": (["execute", "plan.yaml", "--resume"], [], "saved", "--save"),
    "compare": (["compare", "trace.json"], [], "trace.json", "--trace"),
    "export": (["export"], ["--format", "torch-csv", "-o", "x"], "plan.yaml", "penstock plan"),
    "--checkpoint": (["export", "plan.yaml", "--format", "state-dict", "--checkpoint"],
                     ["-o", "x"], "saved", "--save"),
    "--profile": (["show", "model.pt2", "--profile"], [], "profile.json", "penstock profile"),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_another_kind_of_file_is_refused_with_what_makes_the_right_one(folder, taker):
    before, after, taken, made = TAKERS[taker]
    for given, kind in KINDS.items():
        passes = given == taken or (taken == "saved" and given == ".")
        if passes or (taker == "plan" and given == "layers.yaml"):
            continue
        taken_kinds = KINDS[taken] + (" or a table of layers" if taker == "plan" else "")
        message = refused(folder, *before, given, *after,
                          says=[f"{given}: is {kind}; {taker} takes {taken_kinds}\n"])
        assert any(text in message for text in (made, "Give its folder", "docs/files.md"))


@pytest.mark.parametrize("given, words, cure", [
    ("job.yaml", ["plan", "job.yaml", "-o", "x"], "penstock profile job.yaml -o profile.json"),
    ("job.yaml", ["simulate", "job.yaml"],
     "penstock profile job.yaml -o profile.json, then penstock plan profile.json -o plan.yaml"),
    ("profile.json", ["execute", "profile.json"], "penstock plan profile.json -o plan.yaml"),
    ("plan.yaml", ["compare", "plan.yaml", "trace.json"],
     "penstock simulate plan.yaml --trace predicted.json"),
    ("model.pt2", ["profile", "model.pt2", "-o", "x"], "`model: model.pt2`"),
    ("model.py", ["show", "model.py"], "tools/export_model.py model.py -o model.pt2"),
])
def test_the_cure_goes_on_from_the_file_that_was_given(folder, given, words, cure):
    refused(folder, *words, says=[given, cure])


@pytest.mark.parametrize("name, text", [("model.pt2", "1.05 M"), ("plan.yaml", "on 2 ranks")])
def test_show_goes_by_the_content_and_not_by_the_name(folder, name, text):
    shutil.copy(folder / name, folder / "any.thing")
    assert text in succeeds(folder, "show", "any.thing").stdout


def test_the_kind_is_found_wherever_the_file_says_it(folder):
    job = folder / "job.yaml"
    lines = job.read_text().splitlines()
    job.write_text("# a comment\r\n" + "\r\n".join(lines[1:]) + "\r\npenstock: 'job'  # kind\r\n")
    refused(folder, "plan", "job.yaml", "-o", "x", says=["job.yaml: is a job"])
    (folder / "late.json").write_text('{"a": [{"penstock": "plan"}], "penstock": "profile"}')
    refused(folder, "simulate", "late.json", says=["late.json: is a profile"])


@pytest.mark.parametrize("key, path, file", [
    ("model", "plan.yaml", "job.yaml"), ("model", "cluster.yaml", "plan.yaml"),
    ("path", "job.yaml", "plan.yaml")])
def test_a_file_of_another_kind_that_a_file_names_is_refused_with_both(folder, key, path, file):
    text = (folder / file).read_text().splitlines()
    changed = [i for i, line in enumerate(text) if f"{key}: " in line][0]
    before, _, rest = text[changed].partition(f"{key}: ")
    rest = rest[rest.index(","):] if "," in rest else ""
    text[changed] = f"{before}{key}: {path}{rest}"
    (folder / file).write_text("\n".join(text) + "\n")
    words = ["profile", "-o", "x"] if file == "job.yaml" else ["simulate"]
    refused(folder, words[0], file, *words[1:],
            says=[f"{path}: is {KINDS[path]}", f"in {file} takes"])


@pytest.mark.parametrize("content, says", [
    ('{"penstock": "profile", "version": 1, "job": }', ["bad:1:46: not JSON from `}` on"]),
    ('{"penstock": "profile",\n "version": 1,\n', ["bad:3:1: not JSON: it ends too early"]),
    ('{"penstock": "profile",\n "version": 1,\n  oops}', ["bad:3:3: not JSON from `oops}` on"]),
    ('{"penstock": "profile", "version": 1e999}', ["bad: not JSON: a number out of range"]),
])
def test_damaged_json_is_told_with_line_and_column(folder, content, says):
    (folder / "bad").write_text(content)
    message = refused(folder, "plan", "bad", "-o", "x", says=says)
    assert "json.exception" not in message


@pytest.mark.parametrize("content, says", [
    ('job: "a\\qb"\n', ["bad:2:10", "no such escape", "single quotes"]),
    ("job: {model: x\n", ["bad:2: ", "`{` is never closed"]),
    ("job: [1, 2\n", ["bad:2: ", "`[` is never closed"]),
    ("\tversion: 1\n", ["bad:2:1", "a tab", "Indent with spaces"]),
    ("version: 1: 2\n", ["bad:2:11", "a `:` where no value belongs", "in quotes"]),
    ("version: @x\n", ["bad:2:10", "with which no value begins"]),
    ("version: ]\n", ["bad:2:10", "closed that was not opened"]),
])
def test_what_is_not_yaml_is_told_with_line_and_column(folder, content, says):
    (folder / "bad").write_text("penstock: plan\n" + content)
    refused(folder, "simulate", "bad", says=["not YAML: ", *says])


def test_a_cut_model_is_still_a_model(folder):
    model = folder / "model.pt2"
    model.write_bytes(model.read_bytes()[:20000])
    refused(folder, "show", "model.pt2", says=["no complete .pt2"])


@pytest.mark.parametrize("given, cure", [
    ("saved/step-50/manifest.json", "Give its folder: saved/step-50\n"),
    ("page.html", "Open it in a browser.\n")])
def test_show_says_what_to_do_with_a_file_that_it_does_not_show(folder, given, cure):
    refused(folder, "show", given, says=["show takes a model, a job, ", cure])


@pytest.mark.parametrize("data", ["weights.pt", "model.pt2", "saved"])
def test_tensors_that_pytorch_alone_reads_are_not_taken_for_text(folder, data):
    job = folder / "job.yaml"
    job.write_text(job.read_text().replace("data.safetensors", data) + "sequence: 8\n")
    refused(folder, "profile", "job.yaml", "-o", "x",
            says=[f"{KINDS[data]}; `data` in job.yaml takes a .safetensors", "save_file"])
