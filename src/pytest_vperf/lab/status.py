"""What ``vperf lab status`` shows: which hosts are built, and which are up."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pytest_vperf.lab import host_image, state
from pytest_vperf.lab.kinds import KINDS, Kind
from pytest_vperf.targets.base import Unavailable

COLUMNS = ("lab", "built", "state", "process", "port")


@dataclass(frozen=True)
class Seen:
    """What was seen of a kind of host.

    Attributes:
        kind: of host.
        built: the key and size of its image, or why there is none.
        state: in words.
        process: of its QEMU, where it is up.
        port: of 127.0.0.1, likewise.
        uri: of its libvirt, likewise; too long for a column.
    """

    kind: str
    built: str
    state: str
    process: str = ""
    port: str = ""
    uri: str = ""

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """For `COLUMNS`."""
        return self.kind, self.built, self.state, self.process, self.port


def look() -> list[Seen]:
    """What is seen of each kind."""
    return [_look(kind) for kind in KINDS.values()]


def _look(kind: Kind) -> Seen:
    folder = state.user_folder(kind.name)
    found = state.healthy(folder)
    if found is not None:
        how = "emulated" if found.accelerator == "tcg" else "with KVM"
        words = f"up for {age(time.time() - found.since)}, {how}"
        uri = found.host(folder).uri
        return Seen(kind.name, _built(kind), words, str(found.pid), str(found.port), uri)
    if state.being_started(folder):
        return Seen(kind.name, _built(kind), "is being started")
    if state.is_ours(folder) or state.processes(folder):
        return Seen(kind.name, _built(kind), "does not answer (to remove it: vperf clean)")
    return Seen(kind.name, _built(kind), "down")


def _built(kind: Kind) -> str:
    try:
        image = host_image.built(kind)
    except Unavailable as error:
        return error.reason
    return f"{image.key}, {image.size >> 20} MiB" if image is not None else "no"


def age(seconds: float) -> str:
    """A time span in the greatest unit that gives at least one: ``5 min``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
