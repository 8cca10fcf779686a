"""Files on disk: read whole when they are plain files, written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from hemiola.errors import FormatError

MAX_FILE_BYTES = 1 << 34


def read_regular_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; raises FormatError for what is missing, unreadable, no plain file or absurdly large."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise FormatError(f"{os.fspath(path)}: this is no plain file")
        if found.st_size > MAX_FILE_BYTES:
            raise FormatError(f"{os.fspath(path)}: {found.st_size} bytes are too many for a plan file")
        with open(path, "rb") as file:
            return file.read(found.st_size)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FormatError(f"{os.fspath(path)}: cannot be read: {reason}") from None


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that everybody else sees the old one or the whole new one."""
    target = Path(path)
    temporary = target.with_name(f".{target.name[:64]}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, target)
    except OSError as error:
        raise FormatError(f"{target}: cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
