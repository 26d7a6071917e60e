"""The machine's package sources as apt reports them, and those that an image is built from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image import apt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEB822 = """\
Types: deb deb-src
# a mirror
URIs: http://mirror/debian http://second/debian/
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/one.gpg
 /usr/share/keyrings/two.gpg

Types: deb
URIs: http://mirror/debian-security
Suites: trixie-security
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBGPL
 -----END PGP PUBLIC KEY BLOCK-----
"""
ONE_LINE = """\
# deb http://commented/ x main
deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://local/ubuntu noble main
deb-src http://local/source noble main
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    """A machine whose apt-get prints these targets in the requested format."""
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "debian.sources").write_text(DEB822)
    (parts / "ignored.txt").write_text("deb http://no/ x main")
    (tmp_path / "sources.list").write_text(ONE_LINE)
    monkeypatch.setattr(apt, "_SOURCE_FILES", (tmp_path / "sources.list", parts))

    def make(lines: list[str]) -> None:
        program = tmp_path / "apt-get"
        program.write_text(
            "#!/bin/sh\ncat <<'X'\n" + "".join(f"{line}\n" for line in lines) + "X\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return make


def target(
    folder: Path, uri: str, suite: str, origin: str, codename: str = "", architecture: str = "amd64"
) -> str:
    stem = f"{uri.strip('/').replace('/', '_')}_dists_{suite.replace('/', '_')}"
    (folder / f"{stem}_InRelease").write_text(f"{uri} {suite}")
    file = folder / f"{stem}_main_binary-{architecture}_Packages.lz4"
    return f"{uri} {suite} {origin} {codename or suite} {architecture} {file}"


def test_the_distribution_s_sources_with_their_keys_and_one_more_component(
    machine: Callable[[list[str]], None], tmp_path: Path
) -> None:
    machine(
        [
            target(tmp_path, "http://mirror/debian-security/", "trixie-security", "Debian"),
            target(tmp_path, "http://mirror/debian/", "trixie", "Debian"),
            target(tmp_path, "http://mirror/debian/", "trixie", "Debian", architecture="i386"),
            target(tmp_path, "https://vendor/apt/", "nodistro", "Vendor"),
            "http://gone/debian/ trixie Debian trixie amd64 /no/lists/gone_dists_trixie_main",
        ]
    )
    sources = apt.configured()
    assert sources.lines == (
        "deb [arch=amd64 signed-by=/usr/share/keyrings/one.gpg,/usr/share/keyrings/two.gpg] "
        "http://mirror/debian/ trixie main non-free",
        "deb [arch=amd64] http://mirror/debian-security/ trixie-security main non-free",
    )
    assert (sources.distribution, sources.codename) == ("Debian", "trixie")
    known = hashlib.sha256(b"http://mirror/debian/ trixie").hexdigest()
    assert known in sources.releases
    assert len(sources.releases) == 2
    assert len(sources.lists) == 4


def test_ubuntu_keeps_tools_in_other_components(
    machine: Callable[[list[str]], None], tmp_path: Path
) -> None:
    machine([target(tmp_path, "http://local/ubuntu/", "noble", "Ubuntu")])
    assert apt.configured().lines == (
        "deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://local/ubuntu/ noble "
        "main universe multiverse",
    )


def test_without_package_lists_of_the_distribution_nothing_is_built(
    machine: Callable[[list[str]], None], tmp_path: Path
) -> None:
    machine([target(tmp_path, "https://vendor/apt/", "nodistro", "Vendor")])
    with pytest.raises(Unavailable) as caught:
        apt.configured()
    assert str(caught.value) == (
        "apt has no package lists of Debian or Ubuntu (to mend it: apt-get update, as root)"
    )


def test_a_failing_apt_is_reported(machine: Callable[[list[str]], None], tmp_path: Path) -> None:
    machine([])
    (tmp_path / "apt-get").write_text(
        "#!/bin/sh\necho 'E: The list of sources is bad' >&2; exit 100\n"
    )
    with pytest.raises(
        Unavailable, match=r"^apt's sources cannot be read: E: The list of sources is bad$"
    ):
        apt.configured()


def test_a_machine_of_another_architecture_is_refused(
    machine: Callable[[list[str]], None], tmp_path: Path
) -> None:
    line = target(tmp_path, "http://mirror/debian/", "trixie", "Debian", architecture="arm64")
    machine([line])
    with pytest.raises(
        Unavailable, match=r"packages of this machine are for arm64, and .* for amd64 alone$"
    ):
        apt.configured()


def test_a_source_with_an_unbalanced_quote_is_read(
    machine: Callable[[list[str]], None], tmp_path: Path
) -> None:
    (tmp_path / "sources.list.d" / "odd.sources").write_text("Types: deb\nURIs: http://it's/one\n")
    machine([target(tmp_path, "http://local/ubuntu", "noble", "Ubuntu")])
    assert apt.configured().codename == "noble"
