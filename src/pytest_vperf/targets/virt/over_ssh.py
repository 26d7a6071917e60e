"""The ``ssh`` that libvirt calls for ``qemu+ssh://…``: the system's, with the user's settings, forwarding nothing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.ssh_connection import KEEPS_TO_ITSELF

if TYPE_CHECKING:
    from pathlib import Path


def keeping_to_itself(uri: str) -> str:
    """The address, by which libvirt calls a script of ours instead of ``ssh``; of another transport as it is.

    libvirt can be told which program to call (https://libvirt.org/uri.html, ``command``), but not with which options.
    A program that the address names already is the user's own choice.
    """
    parts = urlsplit(uri)
    program = find_program("ssh")
    if not parts.scheme.endswith("+ssh") or "command" in parse_qs(parts.query) or program is None:
        return uri
    command = f"command={quote(str(_script(program)), safe='/')}"
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, command)))))


def _script(program: str) -> Path:
    text = f'#!/bin/sh\nexec {shlex.join([program, *KEEPS_TO_ITSELF])} "$@"\n'

    def write(folder: Path) -> None:
        (folder / "ssh").write_text(text)
        (folder / "ssh").chmod(0o755)

    return cache.entry("ssh", cache.content_key([text]), write) / "ssh"
