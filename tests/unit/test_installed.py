"""Under script/test, what is tested is the installed wheel."""

import os
import sysconfig
from pathlib import Path

import pytest

import pytest_vperf


@pytest.mark.skipif("VPERF_TEST_INSTALLED" not in os.environ, reason="not run by script/test")
def test_the_package_under_test_is_the_installed_one() -> None:
    installed = Path(sysconfig.get_path("purelib")) / "pytest_vperf"
    assert Path(pytest_vperf.__file__).parent == installed


@pytest.mark.skipif("VPERF_TEST_INSTALLED" not in os.environ, reason="not run by script/test")
def test_the_published_profiles_are_installed_with_it() -> None:
    assert list((Path(pytest_vperf.__file__).parent / "thresholds" / "shipped").glob("*.yaml"))
