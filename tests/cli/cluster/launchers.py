"""Real launchers for the tests of `penstock execute`: ranks by hand, Open MPI, a Slurm of one
machine."""

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from pipelines import TORCHRUN, clean_environment

MARK = "PENSTOCK_TEST_MARK"
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID", "RANK", "SLURM_PROCID")
PATIENCE_S = 300  # only what really hangs fails by it
FAREWELL_S = 20  # for the children of a killed process to end
PORTS_OF_PROCESS = 1000


def need(*programs):
    """Skips the test where one is missing; /usr/sbin may not be in the path."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    found = [shutil.which(program, path=path) for program in programs]
    for program, place in zip(programs, found, strict=True):
        if place is None:
            pytest.skip(f"{program} is not installed (tools/packages-test.txt)")
    return found[0] if len(found) == 1 else found


def need_root(what):
    if os.geteuid() != 0:
        pytest.skip(f"{what} needs root")


def own_ports():
    """Ports below those that the system deals out, in an endless random order: between the choice
    of one and its use, seconds later, no socket of another test gets it. Each process of pytest has
    its own."""
    first_dealt = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    end = first_dealt - PORTS_OF_PROCESS * worker
    ports = range(end - PORTS_OF_PROCESS, end)
    return itertools.cycle(random.sample(ports, len(ports)))


OWN_PORTS = own_ports()


def free_port():
    for port in itertools.islice(OWN_PORTS, PORTS_OF_PROCESS):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("", port))
            return port
    raise OSError("no port below those that the system deals out is free")


def marked_environment(**more):
    """By the mark its processes are found again, whoever started them."""
    return {**clean_environment(), MARK: uuid.uuid4().hex,
            **{name: str(value) for name, value in more.items()}}


def processes_of(environment, program):
    """{rank: process id} of the living processes of that program that carry the environment's
    mark."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if os.path.basename(os.readlink(folder / "exe")) != program:
                continue
            content = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended
            continue
        variables = dict(entry.split("=", 1) for entry in content if "=" in entry)
        if variables.get(MARK) != environment[MARK]:
            continue
        rank = next((variables[name] for name in RANK_VARIABLES if name in variables), None)
        found[rank if rank is None else int(rank)] = int(folder.name)
    return found


def wait_until_none_is_left(environment):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if not any(processes_of(environment, name) for name in ("penstock", "penstock-worker")):
            return
        time.sleep(0.05)
    raise AssertionError(f"still running: {processes_of(environment, 'penstock')} "
                         f"{processes_of(environment, 'penstock-worker')}")


def start(command, environment):
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, errors="replace", env=environment)


def end_all(processes):
    """(status, output, errors) of each. Where one hangs, the error has what all of them said."""
    try:
        return [said(process, PATIENCE_S) for process in processes]
    except subprocess.TimeoutExpired as hang:
        statuses = [process.poll() for process in processes]
        for process in processes:
            process.kill()
        told = [said(process, FAREWELL_S)[1:] for process in processes]
        raise AssertionError(f"{hang}; statuses {statuses}, said {told}") from hang
    finally:
        for process in processes:
            process.kill()


def said(process, patience_s):
    output, errors = process.communicate(timeout=patience_s)
    return process.returncode, output, errors


def start_by_hand(commands, environment, prefixes=None, address="127.0.0.1"):
    """One process for each rank with torchrun's variables; commands[i] is rank i's, None where it
    does not come. With prefixes (`ip netns exec …`) each is on a machine of its own."""
    world, port = len(commands), free_port()
    processes = []
    for rank, command in enumerate(commands):
        if command is None:
            continue
        local_rank, local_size = (0, 1) if prefixes else (rank, world)
        places = {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": address, "MASTER_PORT": port,
                  "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": local_size}
        processes.append(start([*(prefixes[rank] if prefixes else []), *command],
                               environment | {name: str(at) for name, at in places.items()}))
    return processes


def ranks_by_hand(commands, prefixes=None, address="127.0.0.1", **variables):
    """What became of each of these processes; `variables`: more of their environment."""
    return end_all(start_by_hand(commands, marked_environment(**variables), prefixes, address))


def mpirun(ranks):
    """The words before a command that Open MPI starts so many times. Of two runs in one folder the
    first to end removes what the other needs: each process of pytest has its own."""
    folder = f"{tempfile.gettempdir()}/ompi-{os.environ.get('PYTEST_XDIST_WORKER', 'tests')}"
    return [need("mpirun"), *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
            "--mca", "orte_tmpdir_base", folder, "--oversubscribe", "-np", ranks]


def mpiexec(ranks):
    """The same of MPICH."""
    return [need("mpiexec.hydra"), "-n", ranks]


def prefix_of(launcher, ranks, request):
    """The words before the command, and what the environment needs."""
    if launcher == "mpirun":
        return mpirun(ranks), {}
    if launcher == "mpiexec":
        return mpiexec(ranks), {}
    if launcher == "srun":
        slurm = request.getfixturevalue("slurm")
        return [slurm.srun, "-n", ranks], slurm.environment
    if not TORCHRUN.exists():
        pytest.skip("torchrun is not beside the Python that runs the tests")
    return [TORCHRUN, "--no-python", "--nproc-per-node", ranks, "--master-port", "0",
            "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"], {}


class Slurm:
    """A Slurm of this machine alone, in a folder of its own, on ports of its own."""

    def __init__(self, folder, cores=8):
        need_root("a Slurm of our own")
        self.folder = folder
        munged, controller, node, self.srun, self.sinfo = need("munged", "slurmctld", "slurmd",
                                                               "srun", "sinfo")
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons = []
        try:
            self._write(cores)
            self._start([munged, "--force", "--foreground", f"--socket={folder}/munge",
                         f"--key-file={folder}/key", f"--log-file={folder}/munged.log",
                         f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munge.seed"])
            self._start([controller, "-D", "-f", folder / "slurm.conf"])
            self._start([node, "-D", "-f", folder / "slurm.conf"])
            self._wait_until_idle()
        except BaseException:
            self.stop()
            raise

    def _write(self, cores):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "key").write_bytes(os.urandom(1024))
        (self.folder / "key").chmod(0o400)
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(f"""
ClusterName=penstock
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge
SlurmUser=root
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
""")

    def _start(self, command):
        log = open(self.folder / f"{Path(str(command[0])).name}.out", "w")
        self.daemons.append(subprocess.Popen([str(word) for word in command], stdout=log,
                                             stderr=log, stdin=subprocess.DEVNULL,
                                             env={**os.environ, **self.environment}))

    def _wait_until_idle(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            state = subprocess.run([self.sinfo, "-h", "-o", "%T"], capture_output=True, text=True,
                                   env={**os.environ, **self.environment})
            if state.stdout.strip() == "idle":
                return
            if any(daemon.poll() is not None for daemon in self.daemons):
                break
            time.sleep(0.2)
        logs = "".join(path.read_text()[-300:] for path in sorted(self.folder.glob("*.out")))
        pytest.skip(f"Slurm does not start on this machine: {logs}")

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
