"""The wheel of tools/wheel works in a fresh environment, without the checkout."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("mesonpy", reason="tools/setup.sh installs meson-python")
torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # it compiles the programs


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([ROOT / "tools" / "wheel", "-o", folder, "--python", sys.executable],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = folder.iterdir()
    assert done.stdout == f"{path}\n"
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """An environment with torch and the wheel. Torch is not installed again: it is linked to."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", wheel], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for source in Path(torch.__file__).parents[1].iterdir():
        if not (packages / source.name).exists() and source.suffix != ".pth":
            (packages / source.name).symlink_to(source)
    return python


def clean(**more):
    names = ("PENSTOCK_BUILD", "PYTHONPATH", "LD_LIBRARY_PATH")
    return {key: value for key, value in os.environ.items() if key not in names} | more


def test_it_is_of_any_python_and_asks_for_the_torch_that_it_was_built_with(wheel):
    assert re.fullmatch(r"penstock-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        text = file.read(metadata).decode()
    release = ".".join(torch.__version__.split(".")[:2])
    assert f"Requires-Dist: torch=={release}.*" in text
    assert {"penstock/bin/penstock", "penstock/bin/penstock-worker",
            "penstock/exporter/export.py"} <= set(names)
    assert not any(re.search("lib(torch|c10|cu|nccl)", name) for name in names)


def test_no_path_of_the_build_is_left_in_the_programs(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path)
    for path in (tmp_path / "penstock" / "bin").iterdir():
        shown = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
        places = re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", shown.stdout)
        assert all(place.startswith("$ORIGIN") for line in places for place in line.split(":"))


def test_the_page_of_docs_runs_there(python, tmp_path):
    first = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.S)
    (tmp_path / "train.py").write_text(first.group(1))
    done = subprocess.run([python, "train.py"], cwd=tmp_path, capture_output=True, text=True,
                          env=clean())
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"step \d+: loss [\d.]+", done.stdout)) == 2
    penstock = python.with_name("penstock")
    done = subprocess.run([penstock, "execute", "plan.yaml", "--resume", "saved", "--steps", "33"],
                          cwd=tmp_path, capture_output=True, text=True, env=clean())
    assert done.returncode == 2 and "data is missing" in done.stderr


def test_another_torch_is_refused_with_the_cure(python, tmp_path):
    """The worker asks the LibTorch that it has found for its release."""
    source = "unsigned long aoti_torch_abi_version(void) { return 3UL << 56; }\n"
    (tmp_path / "other.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "other.so", "other.c"], cwd=tmp_path,
                   check=True)
    test = "import penstock; penstock.Pipeline('plan.yaml')"
    first = re.search(r"```python\n(.*?)\ndata = ", (ROOT / "docs" / "python.md").read_text(), re.S)
    (tmp_path / "plan.py").write_text(first.group(1))
    subprocess.run([python, "plan.py"], cwd=tmp_path, check=True, env=clean())
    done = subprocess.run([python, "-c", test], cwd=tmp_path, capture_output=True, text=True,
                          env=clean(LD_PRELOAD=str(tmp_path / "other.so")))
    release = ".".join(torch.__version__.split(".")[:2])
    assert f"built with {release}" in done.stderr and "torch 3.0 is installed" in done.stderr
