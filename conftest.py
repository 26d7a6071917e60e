"""For the whole test suite."""

pytest_plugins = ["pytester"]
