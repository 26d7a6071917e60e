"""The ownership of folders that we run programs from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import cache
from pytest_vperf.machine.ownership import require_own, stranger_above

if TYPE_CHECKING:
    from pathlib import Path

STRANGER = 54321
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configured place of the cache."""
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "above" / "cache"))
    (tmp_path / "above").mkdir()
    return tmp_path / "above" / "cache"


def test_a_new_cache_is_private(place: Path) -> None:
    old = os.umask(0)
    try:
        cache.entry("kind", "key", lambda draft: None)
    finally:
        os.umask(old)
    assert place.stat().st_mode & 0o777 == 0o700


@root_only
def test_a_cache_of_another_user_is_refused(place: Path) -> None:
    place.mkdir()
    os.chown(place, STRANGER, -1)
    with pytest.raises(PermissionError) as caught:
        cache.root()
    assert str(caught.value) == (
        f"{place} belongs to another user (user {STRANGER}); set VPERF_CACHE_DIR to a folder of yours"
    )


def test_a_cache_that_others_may_write_to_is_refused(place: Path) -> None:
    place.mkdir()
    place.chmod(0o775)
    with pytest.raises(PermissionError) as caught:
        cache.root()
    assert str(caught.value) == (
        f"other users may write to {place}, which VPERF_CACHE_DIR names; `chmod go-w {place}`, or set"
        " VPERF_CACHE_DIR to a folder that only you may write to"
    )


@root_only
@pytest.mark.parametrize("theirs", ["kind", "kind/key"])
def test_an_entry_of_another_user_in_our_cache_is_refused(place: Path, theirs: str) -> None:
    """As after a `chown` of the cache that was not recursive."""
    entry = cache.entry("kind", "key", lambda draft: (draft / "program").touch())
    os.chown(place / theirs, STRANGER, -1)
    with pytest.raises(PermissionError) as caught:
        cache.entry("kind", "key", lambda draft: None)
    assert str(caught.value) == (
        f"{place / theirs} belongs to another user (user {STRANGER}); set VPERF_CACHE_DIR to a folder of yours"
    )
    os.chown(place / theirs, 0, -1)
    assert cache.entry("kind", "key", lambda draft: None) == entry


@root_only
@pytest.mark.parametrize("there", [True, False])
def test_a_cache_in_another_users_folder_is_refused(place: Path, there: bool) -> None:
    """That user could replace it at any moment."""
    if there:
        place.mkdir(mode=0o700)
    os.chown(place.parent, STRANGER, -1)
    with pytest.raises(PermissionError) as caught:
        cache.root()
    assert str(caught.value) == (
        f"{place.parent} belongs to user {STRANGER}, and so who may change what is in {place}, which is"
        " executed; set VPERF_CACHE_DIR to a folder of yours"
    )


def test_a_cache_below_a_world_writable_folder_is_refused(place: Path) -> None:
    place.parent.chmod(0o777)
    with pytest.raises(PermissionError, match=f"^everybody may write to {place.parent}, and so"):
        cache.root()
    place.parent.chmod(0o1777)  # as /tmp is
    assert cache.root() == place


@root_only
def test_a_link_of_another_user_in_the_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert stranger_above(tmp_path / "link" / "cache") == ""
    os.chown(tmp_path / "link", STRANGER, -1, follow_symlinks=False)
    assert stranger_above(tmp_path / "link" / "cache") == (
        f"{tmp_path / 'link'} belongs to user {STRANGER}"
    )


@root_only
def test_root_has_a_cache_of_its_own_in_another_users_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `sudo -E`, and in containers of CI systems."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, STRANGER, -1)
    monkeypatch.delenv("VPERF_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(cache, "_ROOTS", tmp_path / "roots")
    assert cache.root() == tmp_path / "roots"
    os.chown(home, 0, -1)
    assert cache.root() == home / ".cache" / "vperf"


def test_rights_that_a_umask_left_are_removed(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    require_own(tmp_path, "VPERF_CACHE_DIR", named=False)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
