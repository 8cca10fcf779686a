"""``python -m hemiola`` is the command ``hemiola``."""

from hemiola.cli.main import main

if __name__ == "__main__":
    main(prog_name="hemiola")
