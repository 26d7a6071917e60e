"""What an option or its ini setting says: text, flag, path, names, or time. The command line comes before the ini."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.claims import judge

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


def text_of(config: pytest.Config, name: str) -> str | None:
    """Its text; ``None`` where it says nothing.

    Args:
        config: of the run.
        name: of the option in pytest's configuration, and of the ini setting.
    """
    value: Any = config.getoption(name)
    if value is None:
        value = config.getini(name)
    return str(value).strip() or None if value is not None else None


def flag_of(config: pytest.Config, name: str) -> bool:
    """A flag of the ini file.

    Raises:
        pytest.UsageError: it is none.
    """
    try:
        return bool(config.getini(name))
    except (TypeError, ValueError, pytest.UsageError) as error:
        raise pytest.UsageError(f"{name}: {error}") from None


def path_of(config: pytest.Config, name: str, option: str) -> Path | None:
    """A path: from the command line it is seen from where pytest was called, from the ini file from the root.

    Raises:
        pytest.UsageError: it is empty.
    """
    given = config.getoption(name)
    text = given if given is not None else config.getini(name)
    if given is not None and not str(given).strip():
        raise pytest.UsageError(f"{option}: the file's name is empty")
    if not text:
        return None
    base = config.invocation_params.dir if given is not None else config.rootpath
    return base / str(text)


def names_of(config: pytest.Config, name: str, option: str) -> tuple[str, ...]:
    """Names with commas between them, each once; an option may be repeated.

    Raises:
        pytest.UsageError: one is no name.
    """
    given = config.getoption(name)
    texts = given if given is not None else [config.getini(name) or ""]
    names = [part.strip() for text in texts for part in text.split(",")]
    if given is None and names == [""]:
        return ()
    for part in names:
        if not _NAME.fullmatch(part):
            raise pytest.UsageError(f"{option}: {part!r} is not a name")
    return tuple(dict.fromkeys(names))


def time_of(text: str | None, option: str, usual: str, seconds: float) -> float:
    """A time in seconds; ``seconds`` is what ``usual`` means.

    Raises:
        pytest.UsageError: the text is no time.
    """
    if text is None or text == usual:
        return seconds  # the usual case must not pay for importing pint
    try:
        return judge.read_seconds(text)
    except ValueError as error:
        raise pytest.UsageError(f"{option}: {error}") from None


def size_of(config: pytest.Config, name: str, option: str) -> int | None:
    """A size in bytes, of a text such as ``6 GiB``; ``None`` where it says nothing.

    Raises:
        pytest.UsageError: the text is no size, or not more than nothing.
    """
    text = text_of(config, name)
    if text is None:
        return None
    from pytest_vperf.quantity import QuantityError, amount

    try:
        size = round(amount(option, text, "byte", such_as="6 GiB"))
    except QuantityError as error:
        raise pytest.UsageError(str(error)) from None
    if size <= 0:
        raise pytest.UsageError(f"{option}: {text!r} is not more than nothing")
    return size


def number_of(config: pytest.Config, name: str, option: str) -> int | None:
    """A whole number from 1 on; ``None`` where it says nothing.

    Raises:
        pytest.UsageError: the text is none.
    """
    text = text_of(config, name)
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise pytest.UsageError(f"{option}: {text!r} is not a whole number from 1 on")
    return int(text)
