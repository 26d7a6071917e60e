"""Where the loader of an image looks for libraries, without a leading slash."""

from __future__ import annotations

import fnmatch
import posixpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.targets.tree import Tree

#: After those of the configuration (ld.so(8)); and musl's (https://wiki.musl-libc.org, "Environment variables").
_DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
_MAX_DEPTH = 8


def library_folders(tree: Tree) -> list[str]:
    """The folders with an image's libraries, in the order in which its loader looks at them, links resolved."""
    folders = [*_configured(tree, "/etc/ld.so.conf"), *_default(tree)]
    found = (tree.resolve(folder) for folder in folders)
    return list(dict.fromkeys(path for path in found if path and tree.names(path)))


def _default(tree: Tree) -> Iterator[str]:
    for folder in _DEFAULT:
        # Debian's loader has its multiarch folders built in; their configuration file comes with the C library.
        for name in tree.names(folder):
            if name.endswith(("-linux-gnu", "-linux-musl")):
                yield f"{folder}/{name}"
        yield folder


def _configured(tree: Tree, path: str, depth: int = 0) -> Iterator[str]:
    """The folders that a file in the form of ld.so.conf names (ldconfig(8)): one a line, or ``include PATTERN``."""
    if tree.entry(path) is None or depth > _MAX_DEPTH:
        return
    for line in tree.read(path).decode("utf-8", "replace").splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[0] == "include":
            pattern = posixpath.join(posixpath.dirname(path), words[1])
            folder, name = posixpath.split(pattern)
            for each in fnmatch.filter(tree.names(folder), name):
                yield from _configured(tree, f"{folder}/{each}", depth + 1)
        elif words and words[0].startswith("/"):
            yield words[0]
