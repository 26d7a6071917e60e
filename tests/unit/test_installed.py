"""Under script/test, what is tested is the installed wheel."""

import os
import subprocess
import sys
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


@pytest.mark.skipif("VPERF_TEST_INSTALLED" not in os.environ, reason="not run by script/test")
def test_the_tests_of_the_published_claims_run_from_it_in_any_folder(tmp_path: Path) -> None:
    folder = Path(pytest_vperf.__file__).parent / "published"
    ours = Path(__file__).parents[1] / "claims"

    def files(place: Path) -> dict[str, str]:
        return {
            str(each.relative_to(place)): each.read_text()
            for each in place.rglob("*.py")
            if each != place / "__init__.py"
        }

    assert files(folder) == files(ours)
    words = ["--pyargs", "pytest_vperf.published", "-m", "gallery", "--collect-only", "-q"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-W", "error", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": "-p no:cacheprovider"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "gallery/test_starting.py::test_crun_takes_half_the_time_of_runc" in done.stdout
    assert list(tmp_path.iterdir()) == []
