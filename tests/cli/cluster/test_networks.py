"""Ranks in network namespaces of their own, joined by a link of limited bandwidth.

Each namespace is a machine as far as the network goes: the ranks find each other by address, and
the link is as slow as `tc` makes it. What the link costs is measured (penstock profile --link), and
must predict what is measured next.
"""

import contextlib
import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from launchers import (end_all, free_port, marked_environment, need, need_root, ranks_by_hand,
                       start, start_by_hand, wait_until_none_is_left)
from pipelines import (PENSTOCK, TORCHRUN, execute_json, good_plan, model_path, needs_backend,
                       torch, vectors, write_plan)

pytestmark = needs_backend
RATE = 50e6 / 8        # bytes per second, with the packets' headers
BURST = 8 * 1024       # bytes that pass at once after a pause
HEADERS = 66 / 1514    # Ethernet, IP and TCP with time stamps, of a full packet


class Network:
    """Two namespaces with an address each, and a link between them. Removed at the end, also after
    a failure."""

    def __init__(self):
        need_root("a network namespace")
        self.ip, self.tc = need("ip", "tc")
        self.names = [f"penstock-{os.getpid()}-{side}" for side in (0, 1)]
        self.addresses = ["10.201.7.1", "10.201.7.2"]
        self.devices = [f"pst{side}" for side in (0, 1)]
        try:
            self._make()
        except BaseException:
            self.remove()
            raise

    def _make(self):
        for name in self.names:
            if problem := self._run(self.ip, "netns", "add", name):
                pytest.skip(f"this machine allows no network namespaces: {problem}")
        self._must(self.ip, "link", "add", self.devices[0], "netns", self.names[0], "type", "veth",
                   "peer", "name", self.devices[1], "netns", self.names[1])
        for name, device, address in zip(self.names, self.devices, self.addresses, strict=True):
            self._must(self.ip, "-n", name, "address", "add", f"{address}/30", "dev", device)
            for up in ("lo", device):
                self._must(self.ip, "-n", name, "link", "set", up, "up")
            if problem := self._run(self.tc, "-n", name, "qdisc", "add", "dev", device, "root",
                                    "handle", "1:", "tbf", "rate", f"{RATE * 8:.0f}bit", "burst",
                                    str(BURST), "latency", "2s"):
                pytest.skip(f"this kernel has no tbf: {problem}")

    def delay(self, milliseconds):
        """In each direction. Skips the test where the kernel cannot."""
        for name, device in zip(self.names, self.devices, strict=True):
            if problem := self._run(self.tc, "-n", name, "qdisc", "add", "dev", device, "parent",
                                    "1:", "netem", "delay", f"{milliseconds}ms"):
                pytest.skip(f"this kernel has no netem: {problem}")

    @contextlib.contextmanager
    def cut(self, side=0):
        """At that machine, whose own device is then down."""
        device = [self.ip, "-n", self.names[side], "link", "set", self.devices[side]]
        self._must(*device, "down")
        yield
        self._must(*device, "up")

    def prefixes(self):
        return [[self.ip, "netns", "exec", name] for name in self.names]

    def remove(self):
        for name in self.names:
            self._run(self.ip, "netns", "delete", name)

    @staticmethod
    def _run(*command):
        """What it says where it fails, else \"\"."""
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stderr.strip() or f"exit status {done.returncode}" if done.returncode else ""

    def _must(self, *command):
        subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def network():
    made = Network()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def link(network, tmp_path_factory):
    return measured_link(network, tmp_path_factory.mktemp("link"))


def on_both(network, *command, own=({}, {}), **variables):
    """`own`: more variables of each rank's environment."""
    prefixes = [[*prefix, "env", *(f"{name}={value}" for name, value in more.items())]
                for prefix, more in zip(network.prefixes(), own, strict=True)]
    return ranks_by_hand([list(command)] * 2, prefixes=prefixes, address=network.addresses[0],
                         **variables)


def measured_link(network, folder):
    cluster = folder / "cluster.yaml"
    (status, _, errors), (other, _, others) = on_both(network, PENSTOCK, "profile", "--link",
                                                      "-o", cluster)
    assert (status, other) == (0, 0), errors + others
    link = yaml.safe_load(cluster.read_text())["link"]
    return cluster, float(link["latency"]), float(link["bandwidth"])


# A receiver that times, by its own clock, from its word that it is ready to the last byte; not
# Penstock's code.
RECEIVER = """
import socket, sys, time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('listening', flush=True)
peer, _ = listener.accept()
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for size in map(int, sys.argv[3:]):
    start, left = time.monotonic(), size
    peer.sendall(b'x')
    while left:
        left -= len(peer.recv(min(left, 1 << 16)))
    print(time.monotonic() - start, flush=True)
"""
SENDER = """
import socket, sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for size in map(int, sys.argv[3:]):
    peer.recv(1)
    peer.sendall(b'x' * size)
"""


def socket_times(network, sizes):
    prefixes, address, port = network.prefixes(), network.addresses[1], free_port()
    words = [address, port, *sizes]
    receiver = start([*prefixes[1], sys.executable, "-c", RECEIVER, *words], marked_environment())
    assert receiver.stdout.readline() == "listening\n"
    sender = start([*prefixes[0], sys.executable, "-c", SENDER, *words], marked_environment())
    (_, _, errors), (status, output, more) = end_all([sender, receiver])
    assert status == 0, errors + more
    return [float(line) for line in output.split()]


def test_the_measured_link_is_as_wide_as_it_was_made_and_predicts_other_transfers(network, link):
    """Tolerance: the bandwidth is what messages of 64 KB to 4 MB show, most likely that of 512 KB,
    but perhaps of 128 KB, of which the burst, which passes at once, is 6 %; what is timed beside a
    transfer (a word back, waking up) is milliseconds of 340. In all 10 %, of the quickest of five
    transfers: what else the machine does only adds."""
    _, latency, bandwidth = link
    assert bandwidth == pytest.approx(RATE * (1 - HEADERS), rel=0.1)
    size = 2_000_000
    times = socket_times(network, [size] * 5)
    assert min(times) / (latency + size / bandwidth) == pytest.approx(1, abs=0.1)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """The PiPPy network with microbatches of 256: what a plan of it needs, its profile included."""
    folder = tmp_path_factory.mktemp("profile")
    job, profile = folder / "job.yaml", folder / "profile.json"
    model, data = model_path("pippy"), vectors(folder, "x", 512, torch.float32, samples=1024)
    plan = write_plan(folder, model, data, ["", "layer2"], 4, 256, steps=6)
    job.write_text(yaml.safe_dump({"penstock": "job", **yaml.safe_load(plan.read_text())["job"]}))
    subprocess.run([PENSTOCK, "profile", job, "-o", profile], capture_output=True, check=True)
    return model, data, profile


def compute_s(trace):
    events = json.loads(trace.read_text())["penstock"]["events"]
    return sum(end - begin for _, action, begin, end, *_ in events
               if not any(word in action for word in ("SEND", "RECV", "REDUCE")))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_measured_link_predicts_the_step_of_a_plan_that_waits_for_its_transfers(
        network, link, profiled, tmp_path, schedule):
    """1 MB a microbatch, there and back, 175 ms each time beside some milliseconds of compute.
    Tolerance: that of the link, 10 %, and all that is computed in a step: as predicted, since the
    machine may have been busier when it was profiled, and as measured, since it may be so now. What
    else it does only adds: the shortest step counts."""
    cluster, _, bandwidth = link
    model, data, profile = profiled
    plan = write_plan(tmp_path, model, data, ["", "layer2"], 4, 256, schedule=schedule, steps=6,
                      profile={"path": str(profile)}, cluster={"path": str(cluster)})
    trace, prediction = tmp_path / "trace.json", tmp_path / "prediction.json"
    simulated = subprocess.run([PENSTOCK, "simulate", plan, "--json", "--trace", prediction],
                               capture_output=True, text=True, check=True)
    predicted = json.loads(simulated.stdout)["step_s"]
    (status, output, errors), _ = on_both(network, PENSTOCK, "execute", plan, "--json",
                                          "--trace", trace)
    assert status == 0, errors
    steps = json.loads(output)["step_s"][3:]
    assert predicted > 4 * (1 << 20) / bandwidth  # the transfers of one direction alone
    assert 0.9 * (predicted - compute_s(prediction)) <= min(steps)
    assert min(steps) <= 1.1 * predicted + compute_s(trace)


def test_torchrun_on_two_machines_trains_as_on_one(network, tmp_path):
    if not TORCHRUN.exists():
        pytest.skip("torchrun is not beside the Python that runs the tests")
    plan, port = good_plan(tmp_path), free_port()
    results = end_all([start([*prefix, TORCHRUN, "--no-python", "--nnodes", 2, "--node-rank", node,
                              "--nproc-per-node", 1, "--master-addr", network.addresses[0],
                              "--master-port", port, PENSTOCK, "execute", plan, "--json"],
                             marked_environment())
                       for node, prefix in enumerate(network.prefixes())])
    assert [status for status, _, _ in results] == [0, 0], results
    assert json.loads(results[0][1])["losses"] == execute_json(plan)["losses"]


def test_transfers_take_the_interface_that_is_named(network, tmp_path):
    plan = good_plan(tmp_path)
    device = [{"GLOO_SOCKET_IFNAME": f"nothing0,{name}"} for name in network.devices]
    (status, output, errors), (other, _, _) = on_both(network, PENSTOCK, "execute", plan,
                                                      "--json", own=device)
    assert (status, other) == (0, 0), errors
    assert json.loads(output)["losses"] == execute_json(plan)["losses"]


def test_an_interface_that_no_machine_has_is_refused_by_name(network, tmp_path):
    results = on_both(network, PENSTOCK, "execute", good_plan(tmp_path),
                      own=[{"GLOO_SOCKET_IFNAME": "nothing0"}] * 2)
    assert all(status == 2 for status, _, _ in results), results
    assert any("GLOO_SOCKET_IFNAME" in errors and "nothing0" in errors for _, _, errors in results)


def test_a_delay_is_measured_as_latency(network, tmp_path):
    network.delay(20)
    _, latency, _ = measured_link(network, tmp_path)
    assert latency >= 0.02


def test_ranks_of_two_machines_survive(network, tmp_path):
    plan, faults = good_plan(tmp_path, steps=8), tmp_path / "faults"
    faults.write_text("1 2 3 kill\n0 4 end kill\n1 6 copy kill\n")
    (status, output, errors), (other, _, _) = on_both(
        network, PENSTOCK, "execute", plan, "--survive", "local", "--json", PENSTOCK_FAULTS=faults)
    assert (status, other) == (0, 0), errors
    assert json.loads(output)["losses"] == execute_json(plan)["losses"]
    assert errors.count("The run goes on with step") == 3


def test_where_the_link_between_two_machines_fails_both_end(network, tmp_path):
    """Neither side's connections are closed."""
    plan, environment = good_plan(tmp_path, steps=300_000), marked_environment()
    processes = start_by_hand([[PENSTOCK, "execute", plan, "--survive", "local"]] * 2, environment,
                              network.prefixes(), network.addresses[0])
    assert any(re.match(r"step +1/", line) for line in processes[0].stderr)
    with network.cut():
        results = end_all(processes)
    for (status, _, errors), lost in zip(results, ["rank 1", "rank 0"], strict=True):
        assert status == 1 and f"the penstock of {lost} is gone" in errors, results
    assert "Too few supervisors are left" in results[1][2]
    wait_until_none_is_left(environment)


@pytest.mark.parametrize("cut_off", [1, 0])
def test_a_machine_that_is_cut_off_is_replaced_and_ends(network, tmp_path, cut_off):
    """A spare is on the other machine, and so is the copy of its rank's state."""
    plan, saved = good_plan(tmp_path, steps=60), tmp_path / "saved"
    machines, core = network.prefixes(), str(min(os.sched_getaffinity(0)))
    environment = marked_environment()
    command = ["taskset", "-c", core,  # the bits are of a core for each rank
               PENSTOCK, "execute", plan, "--survive", "peers", "--spares", "1", "--save", saved]
    processes = start_by_hand([command] * 3, environment, [*machines, machines[1 - cut_off]],
                              network.addresses[0])
    assert any(re.match(r"step +1/", line) for line in processes[0].stderr)
    with network.cut(cut_off):
        results = end_all(processes)
    left = 1 - cut_off
    assert (results[cut_off][0], results[left][0], results[2][0]) == (1, 0, 0), results
    assert f"Process 2, a spare, takes rank {cut_off}." in results[left][2], results
    assert "Too few supervisors are left" in results[cut_off][2], results
    wait_until_none_is_left(environment)
    execute_json(plan, "--save", tmp_path / "whole")
    for file in sorted((tmp_path / "whole" / "step-60").iterdir()):
        assert (saved / "step-60" / file.name).read_bytes() == file.read_bytes(), file.name
