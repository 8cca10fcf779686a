"""``host_id``: a name that is equal for the processes that can share memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hemiola.errors import ConnectError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NAMESPACES = tuple(Path("/proc/self/ns") / name for name in ("net", "pid"))
MAX_CHARACTERS = 256


def host_id(env: Mapping[str, str] = os.environ) -> str:
    """Equal for two processes exactly where they can share memory, and different everywhere else.

    Such processes run under the same start of the same kernel, in the same network and process namespaces, as the
    same user; containers on one machine are different hosts. ``HEMIOLA_HOST_ID`` overrides the name.
    """
    given = env.get("HEMIOLA_HOST_ID")
    if given is not None:
        return _checked(given)
    try:
        boot = BOOT_ID.read_text("ascii").strip()
        spaces = [path.stat().st_ino for path in NAMESPACES]
    except OSError as error:
        raise ConnectError(
            f"cannot tell this host from others: {error.filename} cannot be read ({error.strerror}); set "
            "HEMIOLA_HOST_ID to a name that is the same for the processes of one host and for no others"
        ) from error
    return ":".join(map(str, (boot, *spaces, os.getuid())))


def boot_id() -> str:
    """A name of this start of the kernel, equal for all processes of a machine; empty where it cannot be read."""
    try:
        return BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def _checked(given: str) -> str:
    if not given or len(given) > MAX_CHARACTERS or not given.isprintable():
        raise ConnectError(
            f"HEMIOLA_HOST_ID is a name of 1 to {MAX_CHARACTERS} printable characters, but is {given[:40]!r}"
        )
    return given
