"""Cache: values that are costly to make, kept in the user's cache folder under a digest of all that they depend on."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

MAX_BYTES = 1 << 26
"""A kept file is no larger; one that is was not written here."""


def cache_folder() -> Path:
    """Below XDG_CACHE_HOME, or .cache of the home folder."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "hemiola"


def read_kept(name: str) -> Any | None:
    """The JSON document that was kept under a name; None where there is none or it is not whole."""
    path = cache_folder() / name
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def keep(name: str, document: Any) -> None:
    """Keep a JSON document; a folder that cannot be written costs only time."""
    path = cache_folder() / name
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8"
        ) as file:
            json.dump(document, file)
        Path(file.name).replace(path)
