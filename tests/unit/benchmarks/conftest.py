"""The benchmarks are scripts beside the package, so their folder is not on the path."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "benchmarks"
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
