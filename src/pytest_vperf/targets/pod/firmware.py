"""The firmware a pod boots with: qboot, made to boot a kernel and nothing else, or SeaBIOS, QEMU's default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import CannotStart, Unavailable

#: File names, and the package that has each in Debian and Ubuntu.
FILES = {"qboot": ("qboot.rom", "qemu-system-data"), "seabios": ("bios-256k.bin", "seabios")}
FOLDERS = ("/usr/share/qemu", "/usr/share/seabios", "/usr/local/share/qemu", "/usr/share/qemu-kvm")


@dataclass(frozen=True)
class Firmware:
    """A firmware file.

    Attributes:
        name: ``qboot`` or ``seabios``.
        path: the file given to QEMU, on its machine, so that it is known which one ran.
        sha256: of the file.
    """

    name: str
    path: PurePath
    sha256: str


def find(name: str) -> Firmware:
    """The firmware by its name.

    Raises:
        CannotStart: there is no firmware of that name.
        Unavailable: its file is not installed.
    """
    for path in map(Path, candidates(name)):
        if path.is_file():
            return Firmware(name, path, cache.file_sha256(path))
    file, package = FILES[name]
    raise Unavailable(
        f"firmware {name}: no {file} in {', '.join(FOLDERS)}", remedy=f"apt-get install {package}"
    )


def candidates(name: str) -> list[str]:
    """Where the file of a firmware may be, the usual place first.

    Raises:
        CannotStart: there is no firmware of that name.
    """
    if name not in FILES:
        raise CannotStart(f"unknown firmware {name!r}: choose one of {', '.join(sorted(FILES))}")
    return [f"{folder}/{FILES[name][0]}" for folder in FOLDERS]


def check(name: str) -> Readiness:
    """Whether a firmware is installed."""
    try:
        return Readiness(f"firmware {name}", True, str(find(name).path))
    except Unavailable as error:
        return Readiness(f"firmware {name}", False, error.reason, error.remedy)
