"""Connections that are cut under a run that survives."""

import json
import os
import subprocess
import threading

import pytest

from launchers import need, need_root
from pipelines import PENSTOCK, clean_environment, execute_json, needs_backend
from running import end_group, endless_plan
from surviving import tensors_of, went_on

pytestmark = needs_backend


@pytest.fixture
def namespace():
    """A network of its own, whose connections can be cut without anyone else's."""
    need_root("a network namespace")
    ip, _ = need("ip", "ss")
    name = f"penstock-{os.getpid()}-cut"
    if subprocess.run([ip, "netns", "add", name], capture_output=True).returncode != 0:
        pytest.skip("this machine allows no network namespaces")
    subprocess.run([ip, "-n", name, "link", "set", "lo", "up"], check=True)
    yield [ip, "netns", "exec", name]
    subprocess.run([ip, "netns", "delete", name], check=True)


def test_cut_connections_are_made_anew(tmp_path, namespace):
    plan, saved = endless_plan(tmp_path, steps=400), tmp_path / "saved"
    cut = [*namespace, need("ss"), "-K", "dst", "127.0.0.1"]
    with subprocess.Popen([*namespace, PENSTOCK, "execute", plan, "--survive", "local",
                           "--transport", "gloo", "--json", "--save", saved],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=clean_environment(), start_new_session=True) as process:
        hung = threading.Timer(120, end_group, [process])
        hung.start()
        try:
            next(line for line in process.stderr if line.startswith("step   9/"))
            killed = subprocess.run(cut, capture_output=True, text=True)
            if "ESTAB" not in killed.stdout:
                pytest.skip("this kernel cuts no connections")
            said, errors = process.communicate()
        finally:
            hung.cancel()
            end_group(process)
    assert process.returncode == 0, errors
    assert len(went_on(errors)) == 1
    assert json.loads(said)["losses"] == execute_json(plan, "--save", tmp_path / "whole")["losses"]
    found, expected = tensors_of(saved / "step-400"), tensors_of(tmp_path / "whole" / "step-400")
    assert all(bool((found[key] == value).all()) for key, value in expected.items())
