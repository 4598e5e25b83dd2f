"""What the benches in Python share: running a command, what they run on, and tables in Markdown."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PENSTOCK = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build")) / "penstock"


def run(*command, timeout=None):
    """What it prints; ends this program where it fails, or takes more than `timeout` seconds."""
    told = " ".join(map(str, command))
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                              timeout=timeout)
    except subprocess.TimeoutExpired:
        sys.exit(f"{told}\ntook more than {timeout} s")
    if done.returncode != 0:
        sys.exit(f"{told}\n{done.stderr}")
    return done.stdout


def export(model, output, *flags, timeout=None, **settings):
    """configs/models/MODEL.py with these settings, as OUTPUT."""
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    run(sys.executable, ROOT / "tools" / "export_model.py",
        ROOT / "configs" / "models" / f"{model}.py", "-o", output, *flags, *given, timeout=timeout)


def table(rows):
    """Rows of equal keys, as Markdown."""
    cells = [list(rows[0])] + [[str(value) for value in row.values()] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    lines = ["| " + " | ".join(row) + " |" for row in padded]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def put(page, bench, text):
    """Text into a page, between the marks of a bench."""
    content = page.read_text()
    begin = content.index(mark := f"<!-- measured by bench/{bench}: begin -->") + len(mark)
    end = content.index("<!-- end -->", begin)
    page.write_text(f"{content[:begin]}\n{text}\n{content[end:]}")


def processor():
    names = re.findall(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
    return names[0] if names else platform.machine()


def versions():
    import torch
    return f"Linux {platform.release()}, torch {torch.__version__}"


def revision():
    """The commit, with `+` where the tree has changes; "unknown" outside of a repository."""
    found = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--exclude=*", "--dirty=+"],
                           capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
