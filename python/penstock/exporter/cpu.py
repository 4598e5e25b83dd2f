#!/usr/bin/env python3
"""Limits oneDNN to the instructions that work here, where the processor promises more than it does.

Some virtual machines report AMX and trap on oneDNN's bfloat16 kernels that use it: only trying
tells. A child process tries one product, once a boot; ONEDNN_MAX_CPU_ISA overrides the answer.
oneDNN reads that variable when torch is loaded, so call limit_onednn() before the first
`import torch`. Run as a program it prints the limit, if any.
"""

import os
import pathlib
import subprocess
import sys

VARIABLE = "ONEDNN_MAX_CPU_ISA"
PRODUCT = "import torch; a = torch.ones(32, 32, dtype=torch.bfloat16); torch.addmm(a, a, a)"
# Limits from the mildest on: its name, what traps without it, what is left with it. Also in
# cli/workers/onednn_isa.cpp.
LIMITS = [("AVX512_CORE_FP16", "AMX", "AVX-512"),
          ("AVX512_CORE", "AVX512-BF16", "AVX-512 in float32"),
          ("AVX2", "AVX-512", "AVX2")]
UNLIMITED = "ALL"
PATIENCE_S = 120


def limit_onednn(probe=(sys.executable, "-c", PRODUCT)):
    """Sets the variable for this process and its children where that is needed; returns the line
    that says so."""
    if VARIABLE in os.environ:
        return None
    limit = cached()
    if limit is None:
        limit = find(probe)
        remember(limit)
    if limit in (None, UNLIMITED):
        return None
    os.environ[VARIABLE] = limit
    _, trapped, used = next(row for row in LIMITS if row[0] == limit)
    return f"this machine traps in {trapped}: bf16 uses {used} ({VARIABLE}={limit})"


def find(probe):
    """The mildest limit under which the probe succeeds; none where none helps, for then something
    else is wrong."""
    return next((limit for limit in (UNLIMITED, *(row[0] for row in LIMITS))
                 if succeeds(probe, limit)), None)


def succeeds(probe, limit):
    try:
        return subprocess.run(probe, env={**os.environ, VARIABLE: limit}, stdin=subprocess.DEVNULL,
                              timeout=PATIENCE_S, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def cache():
    """The file of this boot; `penstock` reads and writes it as well."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return pathlib.Path(folder, "penstock", f"onednn-isa-{boot}")


def cached():
    try:
        limit = cache().read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return limit if limit in (UNLIMITED, *(row[0] for row in LIMITS)) else None


def remember(limit):
    """Where it cannot be written, or nothing helped, the next process tries again."""
    if limit is None:
        return
    try:
        path = cache()
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_text(limit + "\n", encoding="ascii")
        unfinished.replace(path)
    except OSError:
        pass


if __name__ == "__main__":
    note = limit_onednn()
    if note:
        print(note, file=sys.stderr)
        print(os.environ[VARIABLE])
