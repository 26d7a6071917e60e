"""The gallery: every claim has its source, its procedure and a test, and no quotient of ours is an exact figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vperf.commands.claims.tests import naming_tests
from pytest_vperf.machine import fingerprint
from pytest_vperf.thresholds.criterion import Near, NearLimit
from pytest_vperf.thresholds.hardware import select
from pytest_vperf.thresholds.match import ANY, GALLERY
from pytest_vperf.thresholds.profile import Threshold, load_profile, load_profiles

ROOT = Path(__file__).parents[3]
PROFILE = load_profile(ROOT / "thresholds" / "gallery.yaml")
CLAIMS = list(PROFILE.claims.values())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_each_says_who_published_what_where_and_how(claim: Threshold) -> None:
    assert claim.name.startswith("gallery.")
    assert claim.summary
    assert claim.source is not None
    for key in ("project", "document", "rule", "procedure", "deviations"):
        assert getattr(claim.source, key), key
    assert claim.source.date or claim.source.commit
    told = str(claim.source)
    assert claim.source.date in told
    assert claim.source.commit in told


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_what_is_near_a_figure_is_wide(claim: Threshold) -> None:
    if isinstance(claim.criterion, Near | NearLimit):
        assert claim.criterion.tolerance is not None
        assert claim.criterion.tolerance >= 0.05


def test_each_has_a_test() -> None:
    tests, unread = naming_tests(ROOT / "tests" / "claims" / "gallery", ROOT)
    assert unread == []
    without = [each.name for each in CLAIMS if not any(test.names(each.name) for test in tests)]
    assert without == []


def test_it_counts_on_every_machine_whatever_profile_is_named() -> None:
    profiles = load_profiles([ROOT / "thresholds"])
    machine = fingerprint.read()
    for hw in ("auto", "type1"):
        selection = select(profiles, hw, machine)
        assert [each.name for each in selection.profiles][-2:] == [ANY, GALLERY]
        found = selection.find("gallery.crun.run")
        assert found is not None
        assert found.profile == GALLERY
        assert GALLERY not in selection.describe()
    assert select(profiles, GALLERY, machine).describe().startswith("gallery, any (named")
