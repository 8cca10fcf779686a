"""The replacement of ssh for mpirun: ``python -m hemiola.lab.remote_shell ADDRESS COMMAND…`` runs on another host of the lab."""

from __future__ import annotations

import json
import os
import sys

from hemiola.lab.lab import enter_command


def main(arguments: list[str]) -> None:
    """Replace this process by the command on the host; works only in processes of ``hemiola lab exec``."""
    address, *command = arguments
    told = json.loads(os.environ["HEMIOLA_LAB_HOSTS"])
    inside = enter_command(told["pid"], *told["hosts"][address])
    os.execv(inside[0], [*inside, "/bin/sh", "-c", " ".join(command)])


if __name__ == "__main__":
    main(sys.argv[1:])
