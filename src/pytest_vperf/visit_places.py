"""Where in a run a test may be visited again: never between two tests that share a fixture which the visit would end.

pytest ends the fixtures of a class, module or package as soon as a test from elsewhere is next. In the user's order
that is after the last of its tests; a visit in their midst would end them, and make them anew, under the tests that
share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A folder that is no package holds no fixtures. Older versions of pytest do not collect such folders.
_FOLDER: type | None = getattr(pytest, "Dir", None)


def comes_between(visited: pytest.Item, previous: pytest.Item, following: pytest.Item) -> bool:
    """Whether a test may be visited between two others, without an end to anything that they share."""
    own = set(visited.listchain())
    shared = set(previous.listchain()) & set(following.listchain())
    if any(node not in own and type(node) is not _FOLDER for node in shared):
        return False
    # A fixture with parameters is made anew for each of them.
    first, second, third = map(_parameters, (previous, following, visited))
    return not any(
        second.get(name) == value != third.get(name, value) for name, value in first.items()
    )


def _parameters(item: pytest.Item) -> Mapping[str, int]:
    """Which parameter a test has of each fixture that several tests share."""
    call: Any = getattr(item, "callspec", None)
    scopes = getattr(call, "_arg2scope", {})
    return {
        name: number
        for name, number in getattr(call, "indices", {}).items()
        if getattr(scopes.get(name), "value", "function") != "function"
    }
