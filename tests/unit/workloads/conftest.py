"""The harness of the golden files is beside the tests, and the long fuzzing run uses it too."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
