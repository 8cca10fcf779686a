"""``read_text_file``: reads a text file from an untrusted source, up to a limit."""

from __future__ import annotations

from hemiola.errors import TopologyError


def read_text_file(path: str, most_bytes: int) -> str:
    """The text of a file; TopologyError where it cannot be read, is too large, or is no text."""
    try:
        with open(path, "rb") as opened:
            data = opened.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise TopologyError(f"{path}: it has more than {most_bytes} bytes, which no such file needs")
        return data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise TopologyError(f"{path}: it cannot be read: {reason}") from None
