"""A host of a lab that is up: how it is reached, and what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class LabHost:
    """A host of a lab that is up.

    Attributes:
        kind: ``kvm`` or ``xen``.
        uri: for libvirt, complete; the host's key is checked.
        ssh_url: ``ssh://root@127.0.0.1:PORT``.
        ssh_config: for ``ssh -F``: which key to use, and which host key is right.
        accelerator: of the host itself: ``kvm``, or ``tcg`` where it is emulated.
        details: what it is, for records; ``emulated`` is ``yes`` or ``no``.
    """

    kind: str
    uri: str
    ssh_url: str
    ssh_config: Path
    accelerator: str
    details: Mapping[str, str]
