import shutil
import signal
import subprocess

import pytest

# A shell lets its background jobs ignore Ctrl-C, which some tests send to what they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes, so its file comes first")


def pytest_collection_modifyitems(items):
    """Files with long tests first: one that began last would run on beside idle cores."""
    first = {item.path for item in items if "long" in item.keywords}
    items.sort(key=lambda item: item.path not in first)


@pytest.fixture
def mount_disk():
    """Mounts an empty file system of a size like "64k" on a new folder, until the test ends."""
    mounted = []

    def mount(folder, size):
        folder.mkdir()
        if shutil.which("mount") is None or subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
                capture_output=True, timeout=60).returncode != 0:
            pytest.skip("a file system cannot be mounted here")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True, timeout=60)
