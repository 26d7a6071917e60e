"""What a run was asked for, in the words of the command line, as its record and its reports tell it."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.run.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

#: A password in an address, and one among its parameters.
_PASSWORDS = (
    (re.compile(r"(\w://[^/\s:@]*):[^/\s]*@"), r"\1:***@"),
    (re.compile(r"(?i)([?&][a-z_]*(?:password|token|secret)=)[^&\s]*"), r"\1***"),
)
#: Settings that say where a run leaves what it found, and not what it measures or judges.
_WHERE = ("json", "benchmark_json", "exports", "save")


def asked(config: pytest.Config) -> dict[str, Any]:
    """What it was asked for, without the passwords that addresses have.

    Keys: ``command``, the command line; ``options``, those of the plugin in it that say what is measured and how it
    is judged; ``package``, of ``--pyargs``, where tests are named by their place in an installed package.
    """
    words = [without_passwords(str(word)) for word in config.invocation_params.args]
    options = [without_passwords(word) for word in _options(config)]
    return {
        "command": shlex.join(["pytest", *words]),
        "options": options,
        "package": _package(config),
    }


def without_passwords(text: str) -> str:
    """The same with ``***`` for each password of an address."""
    for pattern, instead in _PASSWORDS:
        text = pattern.sub(instead, text)
    return text


def _package(config: pytest.Config) -> str:
    """The package that the tests are in; empty where their node IDs are paths below the root folder."""
    if not config.option.pyargs or len(config.args) != 1:
        return ""
    name = config.args[0].partition("::")[0]
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        return ""
    origin = found.origin if found is not None else None
    return "" if origin is None or Path(origin).is_relative_to(config.rootpath) else name


def _options(config: pytest.Config) -> Iterator[str]:
    given = vars(config.option)
    for option in OPTIONS.values():
        value = given.get(option.ini)
        if value is None or option.setting in _WHERE:
            continue
        if option.kind == "flag":
            yield option.name
            continue
        for each in value if isinstance(value, list) else [value]:
            yield f"{option.name}={each}"
