"""Under script/test, what is tested is the installed wheel."""

import os
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

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


@pytest.mark.skipif("VPERF_TEST_INSTALLED" not in os.environ, reason="not run by script/test")
def test_its_page_on_an_index_has_links_that_lead_out_of_it() -> None:
    known: Any = metadata("pytest-vperf")
    page = str(known.get_payload() or known["Description"])
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) > 20
    assert not [link for link in links if not link.startswith("https://")]
    named = {name for name, _, _ in (url.partition(", ") for url in known.get_all("Project-URL"))}
    assert named == {"Homepage", "Documentation", "Changes", "Issues"}


@pytest.mark.skipif("VPERF_TEST_INSTALLED" not in os.environ, reason="not run by script/test")
def test_its_man_page_is_where_man_looks() -> None:
    page = Path(sysconfig.get_path("data")) / "share" / "man" / "man1" / "vperf.1"
    assert page.read_bytes() == (Path(__file__).parents[2] / "docs" / "vperf.1").read_bytes()
