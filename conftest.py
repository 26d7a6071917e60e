"""For the whole checkout."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    """`pytest -m startup` without a path means the claims, in whatever folder of the checkout it is typed.

    In the root, `testpaths` says so; but pytest reads that in the root alone.
    """
    source = pytest.Config.ArgsSource
    # The third source, the folder, is INCOVATION_DIR in pytest 7.
    if config.args_source in (source.ARGS, source.TESTPATHS):
        return
    here, tests = config.invocation_params.dir, config.rootpath / "tests"
    if tests not in (here, *here.parents):
        config.args = [str(tests / "claims")]
    elif config.option.markexpr and not (tests / "claims").is_relative_to(here):
        config.args.append(str(tests / "claims"))
