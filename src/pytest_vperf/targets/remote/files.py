"""Files that are brought to another machine once, and kept there by their content."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.targets.base import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_vperf.targets.base import Target

_FOLDER = 'echo "${VPERF_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/vperf}"'
#: Words: folder, name, draft, minutes after which a draft belongs to an upload that never ended, bytes.
_BRING = """
set -e
mkdir -p "$1"
find "$1" -maxdepth 1 -name '.draft-*' -mmin +"$4" -exec rm -f {} +
cat >"$1/$3"
[ "$(wc -c <"$1/$3")" -eq "$5" ] || { rm -f "$1/$3"; echo "it did not arrive whole" >&2; exit 1; }
mv "$1/$3" "$1/$2"
"""
_OLD = "60"
_TIMEOUT = 1800.0
_LARGE = 16 << 20


class SentFiles:
    """The folder there, in the user's cache.

    Args:
        host: the machine.
        say: is told what takes long.
    """

    def __init__(self, host: Target, say: Callable[[str], None]) -> None:
        self._host = host
        self._say = say
        self._folder = ""
        self._known: set[str] = set()

    def keep(self, source: Path, what: str) -> str:
        """The path there of a file with the content of ``source``; brought there if it is not.

        Args:
            source: a file here, that does not change.
            what: what it is, in a word.

        Raises:
            TargetError: it cannot be brought there; says why.
            CannotConnect: the machine is gone.
        """
        if not self._folder:
            self._folder = f"{self._host.run(['sh', '-c', _FOLDER]).text.strip()}/sent"
        name = f"{what}-{cache.kept_sha256(source)[:16]}"
        path = f"{self._folder}/{name}"
        if name not in self._known:
            # By what is in it, and not by its name alone: a disk that was full leaves files that are cut off.
            told = self._host.run(["sha256sum", path], check=False, timeout=_TIMEOUT)
            if told.text.partition(" ")[0] != cache.kept_sha256(source):
                self._bring(source, name)
            self._known.add(name)
        return path

    def _bring(self, source: Path, name: str) -> None:
        data = source.read_bytes()
        if len(data) > _LARGE:
            self._say(f"sending {name} to {self._host.name}, once: {len(data) >> 20} MiB")
        draft = f".draft-{secrets.token_hex(4)}"
        words = ["sh", self._folder, name, draft, _OLD, str(len(data))]
        done = self._host.run(
            ["sh", "-c", _BRING, *words], input=data, timeout=_TIMEOUT, check=False
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise TargetError(
                f"{source.name} cannot be brought to {self._folder} on {self._host.name}: {said}",
                target=self._host.name,
            )
