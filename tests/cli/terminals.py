"""Runs a command on a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios


def on_terminal(columns, *command, cwd=None):
    """All that a command writes to a terminal of so many columns, standard error included."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(list(map(str, command)), stdout=follower, stderr=follower,
                               cwd=cwd, env={**os.environ, "NO_COLOR": "1"})
    os.close(follower)
    text = b""
    try:
        while part := os.read(leader, 65536):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(leader)
    assert process.wait(timeout=60) == 0, text.decode()
    return text.decode()
