"""The checks that a change of pytest-vperf passes before it lands, and those that take more patience."""
