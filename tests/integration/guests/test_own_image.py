"""Guests that boot their own image, and tools that are brought into it."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from own_image_here import make_own_image

from pytest_vperf.machine.cache import file_sha256
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.guest.own_image import OwnImage, read_image

if TYPE_CHECKING:
    from pathlib import Path

    from guests_here import Place

    from pytest_vperf.targets.guest.guests import Guests

THRESHOLDS = """
hardware: {name: any, match: {}}
claims:
  own.cpu: {at_most: 5 min}
"""
WORK = ("cpu", "--threads=1", "--events=10", "--cpu-max-prime=1000", "run")


@pytest.fixture(scope="module")
def image(guest_place: Place, tmp_path_factory: pytest.TempPathFactory) -> OwnImage:
    folder = tmp_path_factory.mktemp("own")
    return read_image(make_own_image(folder, guest_place.rootfs, guest_place.kernel))


def guests_of(place: Place, image: OwnImage, **more: Any) -> Guests:
    """Guests with an image of their own."""
    return place.guests()._like(_own=lambda: image, **more)


def test_a_guest_boots_its_own_image(guest_place: Place, image: OwnImage) -> None:
    before = guest_place.traces()
    content = file_sha256(image.path)
    with guests_of(guest_place, image).start() as guest:
        assert "root=/dev/vda2" in guest.run(["cat", "/proc/cmdline"]).text
        assert guest.startup_time.value > 0
        # Brought, though this image happens to have the same one: an own image is not known to.
        found = guest.program("sysbench")
        assert found.origin == "image"
        assert found.argv[0].startswith("/var/tmp/vperf-")
        assert "total number of events" in guest.run([*found.argv, *WORK]).text
        guest.run(["sh", "-c", "echo mine >/written && sync"])
        details = guest.facts().details
        assert details["guest_image"] == "own.qcow2"
        assert details["guest_image_sha256"] == content
        assert (details["init"], details["boot"]) == ("of its own image", "firmware")
        assert details["guest_kernel"] == guest.run(["uname", "-r"]).text.strip()
        assert details["rootfs_sha256"] == guest_place.rootfs.sha256
    # The user's file is as it was, and so is the copy of it that the next guest boots.
    assert file_sha256(image.path) == content
    assert guest_place.traces() == before
    with guests_of(guest_place, image, _own_tools=True).start() as guest:
        assert guest.run(["cat", "/written"], check=False).returncode == 1
        found = guest.program("sysbench")
        assert (found.path, found.origin) == ("/usr/bin/sysbench", "host")
        with pytest.raises(Unavailable, match=r"^no_such_tool is not installed on guest tcg"):
            guest.program("no_such_tool")


def test_an_image_that_names_other_files_is_not_opened(tmp_path: Path) -> None:
    """QEMU would read them as root, and the guest would show them."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"root only".ljust(1 << 20))
    made = tmp_path / "own.qcow2"
    for words in (
        ["-b", str(secret), "-F", "raw", str(made)],
        ["-o", f"data_file={secret},data_file_raw=on", str(made), "1M"],
    ):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *words], check=True)
        with pytest.raises(CannotStart, match="it needs another file"):
            read_image(made)


def test_an_image_that_changes_after_it_was_checked_is_not_used(
    guest_place: Place, tmp_path: Path
) -> None:
    """By a user who may write to it, while root starts guests."""
    path = tmp_path / "own.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "2M"], check=True)
    image = read_image(path)
    with path.open("r+b") as stream:
        stream.seek(0, 2)
        stream.truncate(stream.tell() + (1 << 20))
    before = guest_place.daemon.storage.names()
    with pytest.raises(CannotStart, match=rf"{path} was changed while it was read$"):
        guests_of(guest_place, image).start()
    assert guest_place.daemon.storage.names() == before


def test_the_option_names_it(
    pytester: pytest.Pytester, image: OwnImage, guest_place: Place
) -> None:
    pytester.mkdir("thresholds").joinpath("any.yaml").write_text(THRESHOLDS)
    pytester.makepyfile(
        """
        def test_it(claim, guests, sysbench):
            guest = guests.start(memory="384 MiB")
            work = {"threads": 1, "events": 5, "max_prime": 1000}
            claim("own.cpu").holds(lambda: sysbench.cpu(guest, **work).total_time)
        """
    )
    result = pytester.runpytest_subprocess(
        f"--guest-image={image.path}",
        "--vperf-accelerator=tcg",
        "--claims-budget=5 s",
        "--claims-sessions=1",
        "--claims-json=run.json",
        f"--libvirt-uri={guest_place.daemon.connection.uri}",
    )
    assert result.ret == 0
    (claim,) = json.loads((pytester.path / "run.json").read_text())["claims"]
    (target,) = claim["targets"]
    assert target["details"]["guest_image_sha256"] == image.sha256
    assert claim["samples"]
