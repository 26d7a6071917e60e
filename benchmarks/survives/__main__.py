"""``python benchmarks/survives``: see ``--help``."""

from __future__ import annotations

import sys
from pathlib import Path

# The folder of the benchmarks: run as a folder, Python puts only this one on its path.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from alone import interruptible  # noqa: E402

from survives.command_line import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(interruptible("survives", main))
