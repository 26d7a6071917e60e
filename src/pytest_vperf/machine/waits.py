"""What takes long before anything can be measured - an engine that starts, an image that is built - told to whoever
shows it. It is told from wherever it happens: a target that starts late does not know who waits.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_listeners: list[Callable[[str], None]] = []


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Tell that the block takes long, and when it is over.

    Args:
        what: it waits for, to be said after "waits for": ``a private dockerd to start``.
    """
    for tell in tuple(_listeners):
        tell(what)
    try:
        yield
    finally:
        for tell in tuple(_listeners):
            tell("")


def listen(tell: Callable[[str], None]) -> Callable[[], None]:
    """Have it told to somebody else, too.

    Args:
        tell: called with what is waited for, and with an empty text when that is over.

    Returns:
        what ends it.
    """
    _listeners.append(tell)
    return lambda: _listeners.remove(tell) if tell in _listeners else None
