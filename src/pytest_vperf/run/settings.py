"""The settings of a run, read once from the command line and the ini file.

A value that is not understood is refused with the name of its option (design rule 2): each is read by one function,
which takes the name of its ini setting, and raises `ValueError` with what is wrong.
"""

from __future__ import annotations

import re
import secrets
import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import pytest

from pytest_vperf.run import doors
from pytest_vperf.run.options import (
    ACCELERATORS,
    EXPORTS,
    FLEET_RUNS,
    LABS,
    LEVELS,
    OPTIONS,
    AskedExport,
    Level,
    Settings,
)
from pytest_vperf.run.sides import key_of, read_sides
from pytest_vperf.thresholds import judge
from pytest_vperf.thresholds.judge import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_vperf.targets.sides import Sides

_T = TypeVar("_T")
_R = TypeVar("_R", covariant=True)


class Reader(Protocol[_R]):
    """Reads the value of an option, by its ini setting."""

    def __call__(self, config: pytest.Config, name: str, /) -> _R:
        """The value.

        Raises:
            ValueError: it is not understood; says what is wrong.
        """
        ...


def read_settings(config: pytest.Config) -> Settings:
    """The settings, the command line before the ini file.

    Raises:
        pytest.UsageError: a value is not understood; the message names the option.
    """

    def read(name: str, reader: Reader[_T]) -> _T:
        try:
            return reader(config, name)
        except ValueError as error:
            raise pytest.UsageError(f"{OPTIONS[name].name}: {error}") from None

    values: dict[str, Any] = {
        option.setting: read(name, READERS[option.reads])
        for name, option in OPTIONS.items()
        if option.reads
    }
    judged = {key: read(f"claims_{key}", _judge) for key in judge.DEFAULTS}
    if values["time"] is not None and judged["budget"].origin == "default":
        # Nothing but the time that is shared keeps a claim from going on.
        judged["budget"] = Setting(values["time"], judge.TIME_OF_RUN)
    keys = doors.side_keys(config)
    sides = read_sides(config, keys)
    if sides and values["baseline"]:
        raise pytest.UsageError(
            "--baseline: head is compared with base, which is sharper: leave out --baseline, or --claims-head"
        )
    if values["seed"] is None:
        values["seed"] = secrets.randbelow(2**32)
    settings = Settings(
        **values,
        level=_level(config, "measured" if sides or values["baseline"] else "refuted"),
        judge=judged,
        exports=tuple(
            each for name in ("claims_export", *EXPORTS) for each in read(name, _exports)
        ),
        runtimes=_runtimes(config, sides, read("container_runtime", _names)),
        sides=sides,
    )
    of_this_machine = sorted(
        key
        for side in settings.sides.all
        for key in side.settings
        if (known := key_of(keys, key)) is not None and not known.anywhere
    )
    if settings.on and of_this_machine:
        raise pytest.UsageError(
            f"--claims-head: {of_this_machine[0]} is of this machine, and --vperf-on starts targets on another one: "
            "run pytest there"
        )
    if settings.guest_image is not None:
        _check_own_image(settings)
    return settings


def _check_own_image(settings: Settings) -> None:
    """Refuse what a guest's own image would leave without effect.

    Raises:
        pytest.UsageError: such an option is given.
    """
    if settings.guest_kernel is not None:
        raise pytest.UsageError(
            "--guest-image: a guest's own image has its own kernel: leave out --guest-kernel"
        )
    for side in settings.sides.all:
        for key in ("image", "kernel"):
            if key in side.settings:
                raise pytest.UsageError(
                    f"--guest-image: guests with their own image would be the same on all sides, whatever the {key}"
                    f" of these: leave it out where sides have a setting {key}"
                )


# What several options are: a text, names, a path, a whole number, a size.


def _text(config: pytest.Config, name: str) -> str | None:
    """A text; the default where nobody says one, ``None`` where there is no default."""
    return _said(config, name) or OPTIONS[name].default or None


def is_said(config: pytest.Config, name: str) -> bool:
    """Whether the command line or the ini file says what an option is, by its name in the ini file."""
    return bool(config.getoption(name) or config.getini(name))


def _said(config: pytest.Config, name: str) -> str:
    """What the command line says, else the ini file; empty: nothing."""
    given = config.getoption(name)
    return str(given if given is not None else config.getini(name)).strip()


def _flag(config: pytest.Config, name: str) -> bool:
    return bool(config.getoption(name)) or _ini_flag(config, name)


def _ini_flag(config: pytest.Config, name: str) -> bool:
    try:
        return bool(config.getini(name))
    except (TypeError, ValueError, pytest.UsageError) as error:
        raise pytest.UsageError(f"{name}: {error}") from None


def _names(config: pytest.Config, name: str) -> tuple[str, ...]:
    """Names with commas between them, each once."""
    texts = config.getoption(name)
    if texts is None:
        texts = [config.getini(name).strip() or OPTIONS[name].default]
        if texts == [""]:
            return ()
    names = [part.strip() for text in texts for part in text.split(",")]
    for part in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", part):
            raise ValueError(f"{part!r} is not a name")
    return tuple(dict.fromkeys(names))


def _path(config: pytest.Config, name: str) -> Path | None:
    """A path: from the command line it is seen from where pytest was called, from the ini file from the root."""
    given = config.getoption(name)
    if given is not None:
        if not given.strip():
            raise ValueError("the file's name is empty")
        return config.invocation_params.dir / str(given)
    text = str(config.getini(name))
    return config.rootpath / text if text else None


def _file(config: pytest.Config, name: str) -> Path | None:
    """The path of a file that is there."""
    path = _path(config, name)
    if path is not None and not path.is_file():
        raise ValueError(f"{path} is not a file")
    return path


def _exports(config: pytest.Config, name: str) -> list[AskedExport]:
    """What ``--claims-export`` asks for, or an option that is short for it."""
    option = OPTIONS[name].name
    if name in EXPORTS:
        path = _path(config, name)
        return (
            [AskedExport(option=option, format=EXPORTS[name], path=path)]
            if path is not None
            else []
        )
    given = config.getoption(name)
    folder = config.invocation_params.dir if given is not None else config.rootpath
    found = []
    for text in config.getini(name) if given is None else given:
        kind, _, file = text.partition("=")
        if not kind.strip() or not file.strip():
            raise ValueError(f"{text!r} is not FORMAT=FILE, such as markdown=claims.md")
        found.append(AskedExport(option=option, format=kind.strip(), path=folder / file))
    return found


def _number(config: pytest.Config, name: str) -> int | None:
    text, (pattern, meaning) = _text(config, name), OPTIONS[name].takes
    if text is not None and not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError(f"{text!r} is not {meaning}")
    return None if text is None else int(text)


def _bytes(config: pytest.Config, name: str) -> int | None:
    """A size such as ``6 GiB``, in bytes."""
    text = _text(config, name)
    if text is None:
        return None
    from pytest_vperf.quantity import QuantityError, amount

    try:
        size = round(amount(OPTIONS[name].name, text, "byte", such_as="6 GiB"))
    except QuantityError as error:
        raise pytest.UsageError(str(error)) from None
    if size <= 0:
        raise ValueError(f"{text!r} is not more than 0")
    return size


# Where runs are kept.


def _save(config: pytest.Config, name: str) -> str | None:
    """The name of the run; empty without one, ``None`` if it is not kept."""
    given = config.getoption(name)
    text = str(config.getini(name) if given is None else given).strip()
    if given is None:
        if text.lower() in ("", "false", "no", "off", "0"):
            return None
        if text.lower() in ("true", "yes", "on", "1"):
            return ""
    if not text:
        return ""
    from pytest_vperf.results.store.model import LAST, NAME

    spelt_out = any(word.startswith("--claims-save=") for word in config.invocation_params.args)
    if given is not None and not spelt_out and (config.invocation_params.dir / text).exists():
        raise ValueError(f"{text} is there as a file: put what is to be tested before the option")
    if not NAME.fullmatch(text) or LAST.fullmatch(text):
        raise ValueError(
            f"{text!r} is no name for a run: a letter, then letters, digits and . _ + -; 'last' is the last one"
        )
    return text


def _store(config: pytest.Config, name: str) -> str:
    """A URL, or a path."""
    text = cast("str", _text(config, name))
    if "://" in text:
        return text
    given = config.getoption(name)
    base = config.invocation_params.dir if given is not None else config.rootpath
    return str(base / text)


# How claims are judged.


def _level(config: pytest.Config, usual: Level) -> Level:
    """The level: what the command line says, else the ini file, else the usual one.

    Raises:
        pytest.UsageError: there is no such level, or two contradict each other.
    """
    flags: tuple[Level, ...] = ("strict", "advisory")
    typed = {f"--claims-{each}": str(each) for each in flags if config.getoption(f"claims_{each}")}
    if (given := config.getoption("claims_level")) is not None:
        typed[f"--claims-level={given}"] = given
    written = {
        f"claims_{each} = true": str(each) for each in flags if _ini_flag(config, f"claims_{each}")
    }
    if given := config.getini("claims_level").strip():
        written[f"claims_level = {given}"] = given
    for asked in (typed, written):
        for said, level in asked.items():
            if level not in LEVELS:
                raise pytest.UsageError(f"{said}: there are the levels {', '.join(LEVELS)}")
        if len(set(asked.values())) > 1:
            raise pytest.UsageError(
                f"{' and '.join(asked)} contradict each other: give one of them"
            )
        if asked:
            return cast("Level", next(iter(asked.values())))
    return usual


def _judge(config: pytest.Config, name: str) -> Setting:
    """A setting of the judge; the default without importing pint."""
    key, text = name.removeprefix("claims_"), _said(config, name)
    if not text:
        return Setting(judge.DEFAULTS[key], "default")
    origin = OPTIONS[name].name if config.getoption(name) is not None else "ini"
    return Setting(judge.read(key, text), origin)


def _folders(config: pytest.Config, name: str) -> tuple[Path, ...]:
    given = config.getoption(name)
    base = config.invocation_params.dir if given is not None else config.rootpath
    texts = given if given is not None else config.getini(name)
    if not texts:
        usual = config.rootpath / "thresholds"
        return (usual,) if usual.is_dir() else ()
    for folder in (folders := tuple(base / text for text in texts)):
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder")
    return folders


# What targets are, and where.


def _runtimes(config: pytest.Config, sides: Sides, asked: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the runtimes that tests run for; in a gate of runtimes, of the one that both are builds of."""
    if not sides.differ_in("runtime"):
        return asked
    if config.getoption("container_runtime") is not None:
        raise pytest.UsageError(
            "--container-runtime: the sides name the runtime: leave it out beside --claims-head runtime=…"
        )
    from pytest_vperf.targets.container.runtimes import Build, kind_of

    given = [side.settings["runtime"] for side in sides.all if "runtime" in side.settings]
    # A wrapper around a runtime may have any name, and may not say what it wraps.
    known = next(filter(None, (kind_of(shlex.split(words)[0]) for words in given)), "")
    return (known or Build.of(given[0]).kind,)


def _image(config: pytest.Config, name: str) -> str | None:
    path = _path(config, name)
    if path is None:
        return None
    return str(_file(config, name)) if path.suffix == ".tar" else _text(config, name)


def _guest_image(config: pytest.Config, name: str) -> Path | None:
    """The path of an image that a guest can boot, by its header; what it is made of is read when a guest starts."""
    path = _file(config, name)
    if path is not None:
        from pytest_vperf.targets.guest.own_image import HEADER_SIZE, disk_size

        try:
            with path.open("rb") as stream:
                disk_size(stream.read(HEADER_SIZE))
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise ValueError(f"{path} cannot be a guest's image: {error}") from None
    return path


def _accelerators(config: pytest.Config, name: str) -> tuple[str, ...]:
    names = _names(config, name)
    for each in names:
        if each not in (*ACCELERATORS, "auto"):
            raise ValueError(f"{each!r} is not known; there are {', '.join(ACCELERATORS)} and auto")
    if "auto" in names and len(names) > 1:
        raise ValueError("auto stands alone")
    return () if names == ("auto",) else names


def _seconds(config: pytest.Config, name: str) -> float:
    text = _text(config, name)
    # The usual case must not pay for importing pint.
    return 120.0 if text == "120 s" else judge.read_seconds(text)


def _time(config: pytest.Config, name: str) -> float | None:
    text = _text(config, name)
    if text is None:
        return None
    # A length is no time, so nobody means metres.
    return judge.read_seconds(re.sub(r"(?<=[\d ])m$", "min", text))


def _on(config: pytest.Config, name: str) -> str:
    text = _text(config, name)
    if text is None:
        return ""
    _refuse_workers(config)
    from pytest_vperf.targets.remote import address

    return address.check(text, LABS)


def _disks(config: pytest.Config, name: str) -> tuple[str, ...]:
    given = tuple(config.getoption(name) or ())
    typed = _typed(config, OPTIONS[name].name)
    for each in given:
        if not each.startswith("/"):
            raise ValueError(f"{each!r} is not the path of a block device, such as /dev/sdb")
        if each not in typed:
            raise ValueError(
                f"{each} is named by addopts, PYTEST_ADDOPTS or a file of arguments, and may be another disk on this"
                " machine than where that was written: name it on the command line"
            )
    if given and any(config.getoption(each, None) for each in ("numprocesses", "tx")):
        raise ValueError("one test at a time may write to a disk: run without pytest-xdist's -n")
    return given


def _typed(config: pytest.Config, option: str) -> set[str]:
    """The values of an option that the command line gives itself: neither ``addopts`` nor what a file has."""
    words = [str(word) for word in config.invocation_params.args]
    values = {word.partition("=")[2] for word in words if word.startswith(f"{option}=")}
    return values | {value for word, value in pairwise(words) if word == option}


def _refuse_workers(config: pytest.Config) -> None:
    if any(config.getoption(each, None) for each in ("numprocesses", "tx")):
        raise ValueError(
            "one run at a time measures on another machine: run without pytest-xdist's -n"
        )


def _fleet(config: pytest.Config, name: str) -> Path | None:
    """The file of a fleet; none in a worker, which is on one of its machines."""
    return None if hasattr(config, "workerinput") else _file(config, name)


def _fleet_run(config: pytest.Config, name: str) -> str:
    text = cast("str", _text(config, name))
    if text not in FLEET_RUNS:
        raise ValueError(f"{text!r} is neither {' nor '.join(FLEET_RUNS)}")
    return text


def _machines(config: pytest.Config, name: str) -> Mapping[str, tuple[str, ...]]:
    """Addresses by names, in the order given."""
    given = config.getoption(name) or config.getini(name)
    if not given:
        return {}
    _refuse_workers(config)
    from pytest_vperf.targets.remote import address, systems

    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        machine, equals, place = text.partition("=")
        if not equals or not systems.NAME.fullmatch(machine):
            raise ValueError(f"{text!r} is not NAME=ssh://[user@]host[:port], such as {_SUCH_AS}")
        address.check(place, LABS)
        if place in found.get(machine, ()):
            raise ValueError(f"{machine}: {place} is given twice")
        if machine == systems.HOST and machine in found:
            raise ValueError(f"two for {machine}: {found[machine][0]} and {place}")
        found[machine] = (*found.get(machine, ()), place)
    return found


_SUCH_AS = "esxi=ssh://root@guest: a name has lower-case letters, digits and _"


def _load_host(config: pytest.Config, name: str) -> str:
    text = _text(config, name) or ""
    if text == OPTIONS[name].default:
        return ""
    from pytest_vperf.targets.remote.connection import parse_url

    try:
        parse_url(text)
    except ValueError as error:
        raise ValueError(f"{error}, nor 'embedded'") from None
    return text


def _libvirt_uris(config: pytest.Config, name: str) -> Mapping[str, str]:
    """The daemons by their drivers."""
    from pytest_vperf.targets.libvirt import address

    found: dict[str, str] = {}
    for uri in config.getoption(name) or config.getini(name):
        driver = address.driver(address.check(uri))
        if driver in found:
            raise ValueError(f"two for {driver}: {found[driver]} and {uri}")
        found[driver] = uri
    return found


def _labs(config: pytest.Config, name: str) -> tuple[str, ...]:
    names = _names(config, name)
    for each in names:
        if each not in LABS:
            raise ValueError(f"there is no lab {each!r}; there are: {', '.join(LABS)}")
    return names


#: By the name that `Option.reads` says.
READERS: Mapping[str, Reader[object]] = {
    "text": _text,
    "flag": _flag,
    "path": _path,
    "file": _file,
    "number": _number,
    "size": _bytes,
    "seconds": _seconds,
    "duration": _time,
    "folders": _folders,
    "name_of_run": _save,
    "store": _store,
    "image": _image,
    "guest_image": _guest_image,
    "accelerators": _accelerators,
    "on": _on,
    "disks": _disks,
    "fleet": _fleet,
    "fleet_run": _fleet_run,
    "names": _names,
    "machines": _machines,
    "load_host": _load_host,
    "libvirt_uris": _libvirt_uris,
    "labs": _labs,
}
