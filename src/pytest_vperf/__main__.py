"""``python -m pytest_vperf``: the command ``vperf``."""

from pytest_vperf.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
