"""What pytest itself prints of a test, or a worker sends: texts of errors and skips come from tools and guests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_vperf import foreign_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

#: As deep as an error's representation is; what it is raised from lies side by side in it.
_DEEPEST = 12
#: Whose objects a representation is made of.
_PYTEST = "_pytest._code"


def clean_report(report: pytest.TestReport) -> None:
    """Make the texts of a report's error or skip fit for a terminal and for JUnit's XML, which pytest makes of them.

    What the test printed, and pytest shows as captured output, is left as it is.
    """
    report.longrepr = _mapped(report.longrepr, foreign_text.lines)


def sendable(data: dict[str, Any]) -> dict[str, Any]:
    """A report as pytest-xdist sends it, without the halves of surrogate pairs over which it would break down."""
    found: dict[str, Any] = _mapped(data, foreign_text.without_surrogates)
    return found


def _mapped(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """A value with all texts in it changed; objects of pytest's are changed in place."""
    if isinstance(value, str):
        return change(value)
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        return {
            _mapped(key, change, depth + 1): _mapped(part, change, depth + 1)
            for key, part in value.items()
        }
    if type(value) in (list, tuple):
        return type(value)(_mapped(part, change, depth + 1) for part in value)
    if type(value).__module__.startswith(_PYTEST):
        for name, part in vars(value).items():
            setattr(value, name, _mapped(part, change, depth + 1))
    return value
