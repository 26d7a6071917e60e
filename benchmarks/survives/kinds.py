"""What is killed: runs over every kind of target, each a project of its own; and the run that comes next."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

THRESHOLDS = """
hardware: {name: any, summary: every machine, match: {}}
claims:
"""
#: Notes each sample that was taken, and each claim that was acknowledged: what may not be lost.
CONFTEST = '''
import pytest
from pytest_vperf.quantity import Quantity

@pytest.fixture
def took(request):
    def note(quantity):
        with open("samples", "a") as stream:
            stream.write(f"{request.node.name}\\n")
        return quantity
    return note

@pytest.fixture
def judged(claim, request, took):
    """Judges a claim named after the test, with what a sampler gives."""
    def judge(sampler):
        claim(f"survives.{request.node.originalname}").holds(lambda: took(sampler()))
        with open("acknowledged", "a") as stream:
            stream.write(f"{request.node.name}\\n")
    return judge

@pytest.fixture
def seconds():
    return lambda number: Quantity(number, "s")
'''
#: Begins and ends: it removes what dead ones left.
NEXT = "def test_next(vperf_run): pass\n"


@dataclass(frozen=True)
class Kind:
    """One kind of run.

    Attributes:
        tests: the file of tests; each one named claims ``survives.NAME``.
        options: of pytest.
        after: the file of tests of the next run.
        command: instead of pytest, words of ``vperf``.
        next_command: instead of the next run, likewise.
        fresh: kinds of cache entries that are not there at the start.
        libvirt: whether a libvirt daemon of others is to be there; its address comes as an option.
        heavy: minutes rather than seconds.
    """

    tests: str = ""
    options: tuple[str, ...] = ()
    after: str = NEXT
    command: tuple[str, ...] = ()
    next_command: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    libvirt: bool = False
    heavy: bool = False

    @property
    def names(self) -> list[str]:
        """The names of its tests."""
        return re.findall(r"^def (test_\w+)", self.tests, re.MULTILINE)

    def lay_out(self, folder: Path) -> None:
        """Make the project."""
        (folder / "thresholds").mkdir(parents=True)
        lines = [f"  survives.{name}: {{at_most: 1000 min}}\n" for name in self.names]
        (folder / "thresholds/any.yaml").write_text(
            THRESHOLDS + "".join(lines or ["  x.y: {at_most: 1 s}\n"])
        )
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_it.py").write_text(self.tests)
        (folder / "next").mkdir()
        (folder / "next/test_next.py").write_text(self.after)

    def words(self, uri: str) -> list[str]:
        """The command that is killed."""
        if self.command:
            return [sys.executable, "-m", "pytest_vperf", *self.command]
        return [*_PYTEST, "test_it.py", "--claims-json=out.json", *_QUICK, *self._options(uri)]

    def next_words(self, uri: str) -> list[str]:
        """The command that comes next."""
        if self.next_command:
            return [sys.executable, "-m", "pytest_vperf", *self.next_command]
        return [*_PYTEST, "next", *self._options(uri, claims=False)]

    def _options(self, uri: str, *, claims: bool = True) -> list[str]:
        about_claims = ("-n", "--claims-", "--same-on-purpose")
        options = [each for each in self.options if claims or not each.startswith(about_claims)]
        return [*options, *([f"--libvirt-uri={uri}"] if self.libvirt else [])]


_REWRITTEN = ("libvirt", "libvirt-knows", "probe", "tools")
_OURS = (
    *("agent", "debian", "disk", "init", "initramfs", "kernel", "lab", "machine", "rootfs", "tree"),
    *_REWRITTEN,
)
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
#: A median is not judged of fewer samples, and without a chance of a verdict a claim takes none at all.
_QUICK = ("--claims-sessions=1", "--claims-budget=5 min", "--claims-pairs=8", "--hw=any")

_RUNC = shutil.which("runc") or "runc"
_CONTAINERS = """
def test_first(judged, containers):
    judged(lambda: containers.start().startup_time)

def test_second(judged, containers):
    judged(lambda: containers.start(memory="64 MiB").startup_time)
"""

KINDS: dict[str, Kind] = {
    "container": Kind(_CONTAINERS),
    "container-xdist": Kind(_CONTAINERS, ("-n2",)),
    "gate": Kind(
        """
def test_gate(judged, containers):
    judged(lambda: containers.start().startup_time)
""",
        (
            *(f"--claims-base=runtime={_RUNC}", f"--claims-head=runtime={_RUNC}"),
            *("--same-on-purpose", "--claims-save", "--claims-markdown=page.md"),
        ),
    ),
    "oci": Kind(
        """
def test_runc(judged, oci):
    runtime = oci("runc")
    judged(lambda: runtime.cycle().duration)
"""
    ),
    "density": Kind(
        """
def test_density(judged, density, pods_on):
    filling = density(pods_on("tcg"), most=14, memory="1 GiB")
    judged(lambda: filling.another().startup_time)
"""
    ),
    "container-disk": Kind(
        """
def test_disk(judged, containers, disks):
    judged(lambda: containers.start(disks=[disks.make("16 MiB", format="ext4")]).startup_time)
"""
    ),
    "container-network": Kind(
        """
def test_network(judged, containers, network, other_host):
    judged(lambda: containers.start(network=network).startup_time)
"""
    ),
    "pod": Kind(
        """
def test_pod(judged, pods_on):
    judged(lambda: pods_on("tcg").start().startup_time)
"""
    ),
    "pod-network": Kind(
        """
def test_pod(judged, pods_on, network, disks):
    judged(lambda: pods_on("tcg").start(network=network, disks=[disks.make("16 MiB")]).startup_time)
"""
    ),
    "disk": Kind(
        """
import time

def test_disk(judged, disks, seconds):
    def sample():
        began = time.perf_counter()
        disks.make("32 MiB", format="ext4").mounted()
        disks.make("16 MiB", below="memory")
        return seconds(time.perf_counter() - began)
    judged(sample)
"""
    ),
    "limited-host": Kind(
        """
import time

def test_limited(judged, limited_host, seconds):
    def sample():
        began = time.perf_counter()
        limited_host(cpus=0.5).run(["sleep", "0.3"])
        return seconds(time.perf_counter() - began)
    judged(sample)
"""
    ),
    "guest": Kind(
        """
def test_guest(judged, guests_on):
    judged(lambda: guests_on("tcg").start(init="small", memory="256 MiB").startup_time)
"""
    ),
    "guest-elsewhere": Kind(
        """
def test_guest(judged, guests_on):
    guests = guests_on("tcg")
    judged(lambda: guests.start(
        init="small", memory="256 MiB", network=guests.network, disks=[guests.disks.make("16 MiB")]
    ).startup_time)
""",
        after="def test_next(vperf_run, _vperf_libvirt_daemon): _vperf_libvirt_daemon()\n",
        libvirt=True,
    ),
    "cache": Kind(
        """
def test_pod(judged, pods_on):
    judged(lambda: pods_on("tcg").start().startup_time)
""",
        after="def test_next(pods_on): pods_on('tcg').start()\n",
        fresh=("agent", "init", "initramfs", "rootfs", "disk", "tree", "probe"),
    ),
    "lab": Kind(
        """
import time

def test_lab(judged, lab, seconds):
    def sample():
        began = time.perf_counter()
        lab("kvm")  # the first one starts it
        time.sleep(1)
        return seconds(time.perf_counter() - began)
    judged(sample)
""",
        heavy=True,
    ),
    "lab-up": Kind(command=("lab", "up", "kvm"), next_command=("lab", "down", "kvm"), heavy=True),
    "domu": Kind(
        """
def test_domu(judged, domus):
    judged(lambda: domus.start(init="small", memory="256 MiB").startup_time)
""",
        ("--vperf-lab=xen",),
        heavy=True,
    ),
}


def own_cache(usual: Path, folder: Path, fresh: Collection[str] = ()) -> None:
    """A cache with what the usual one has, without copying it, but for what is to be built anew.

    Args:
        usual: the cache; on the same mount.
        folder: the new one.
        fresh: kinds of entries that it does not get.
    """
    folder.mkdir(mode=0o700)
    for part in usual.iterdir() if usual.is_dir() else ():
        if part.is_dir() and part.name in _OURS and part.name not in fresh:
            shutil.copytree(
                part,
                folder / part.name,
                symlinks=True,
                # What is written in place must not change the usual one.
                copy_function=shutil.copy2 if part.name in _REWRITTEN else os.link,
                ignore=shutil.ignore_patterns(".*", "*.lock", "lock"),
            )
