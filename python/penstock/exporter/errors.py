"""How a mistake of the user is reported: one message, with the place, the value and the cure."""

import traceback


class UserError(Exception):
    """Ends export_model.py with exit status 2 and this message, without a traceback."""


def reason(error, limit=600):
    """What an exception of somebody else's code says, shortened to at most `limit` characters."""
    lines = [line.rstrip() for line in str(error).strip().splitlines() if line.strip()]
    text = "\n  ".join(lines[:8])
    if len(text) > limit:
        text = text[:limit].rstrip() + " ..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def line_in(error, path):
    """`path:line` of the deepest frame of `error` that lies in the file `path`."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename == path]
    if isinstance(error, SyntaxError) and error.filename == path:
        lines.append(error.lineno)
    return f"{path}:{lines[-1]}" if lines else path
