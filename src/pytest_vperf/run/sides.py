"""The sides of a gate, from the command line or the ini file: ``--claims-base KEY=VALUE --claims-head KEY=VALUE``.

Our own keys are in `KEYS`; plug-ins add others by `pytest_vperf.hookspecs.pytest_vperf_side_keys`.

What is not understood is refused before anything is measured: an unknown key, a path that is no program, and two
sides that are the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.cache import file_sha256
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.results.levels import MOST_SIDE
from pytest_vperf.run.options import OPTIONS
from pytest_vperf.targets.sides import ENV, SAME_ON_PURPOSE, Side, Sides
from pytest_vperf.thresholds.text_file import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

BASE, HEAD = "base", "head"


@dataclass(frozen=True)
class SideValue:
    """The value of a key of a side, such as the runtime that ``--claims-head runtime=PATH`` names.

    Attributes:
        setting: what targets read, in ``side.settings``; paths are absolute.
        same: equal for two values that are the same thing, such as the hash of a program and its arguments.
        sha256: of its file, or of a folder's files; empty if it has none.
    """

    setting: str
    same: tuple[object, ...]
    sha256: str = ""


def program_of_side(text: str, folder: Path) -> SideValue:
    """A program by its name or path, with arguments; two are the same if their bytes and arguments are.

    The setting that targets read is to be split by `shlex.split`.

    Raises:
        ValueError: it is not there, or is no program.
    """
    try:
        program, *arguments = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    path = _program(program, folder)
    digest = file_sha256(path)
    return SideValue(shlex.join((str(path), *arguments)), (digest, *arguments), digest)


def _qemu(text: str, folder: Path) -> SideValue:
    """A QEMU by its name or path."""
    path = _program(text, folder)
    digest = file_sha256(path)
    return SideValue(str(path), (digest,), digest)


def _program(text: str, folder: Path) -> Path:
    """A program: a file seen from the folder, else one of the search path."""
    if "/" not in text and not (folder / text).is_file():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", text):
            raise ValueError(f"{text!r} is neither a path nor a name")
        found = find_program(text)
        if found is None:
            raise ValueError(f"{text} is not installed, and no file of that name is in {folder}")
        return Path(found)
    path = _existing(text, folder)
    if not os.access(path, os.X_OK):
        raise ValueError(f"{path} is no program: chmod +x {shlex.quote(str(path))}")
    return path


def _from(folder: Path, text: str) -> Path:
    """A path seen from a folder, without ``..``; what it names may be a link, and programs know theirs by name."""
    path = folder / text
    return path.parent.resolve() / path.name if path.name not in ("", "..") else path.resolve()


def _existing(text: str, folder: Path) -> Path:
    path = _from(folder, text)
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    return path


def _file(text: str, folder: Path) -> SideValue:
    path = _existing(text, folder)
    digest = file_sha256(path)
    return SideValue(str(path), (digest,), digest)


def _kernel(text: str, folder: Path) -> SideValue:
    """A kernel; its header is read now, since the other claims of a run may take hours."""
    from pytest_vperf.targets.base import CannotStart
    from pytest_vperf.targets.kernel.guest_kernel import read_release

    found = _file(text, folder)
    try:
        read_release(Path(found.setting))
    except CannotStart as error:
        raise ValueError(str(error)) from None
    return found


def _image(text: str, folder: Path) -> SideValue:
    """An image: a reference that the engine has, or a file of ``docker export``."""
    return _file(text, folder) if text.endswith(".tar") else SideValue(text, (text,))


def _engine(text: str, _: Path) -> SideValue:
    """A Docker engine by its address."""
    if not re.match(r"(unix|tcp|ssh|http|https)://.", text):
        raise ValueError(f"{text!r} is no address such as unix:///run/docker.sock or ssh://HOST")
    return SideValue(text, (text,))


def _folder(text: str, folder: Path) -> SideValue:
    """A folder of programs."""
    path = _from(folder, text)
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder")
    digest = sha256()
    for each in sorted(path.iterdir()):
        if each.is_file():
            digest.update(f"{each.name}\0{file_sha256(each)}\0".encode())
    return SideValue(str(path), (digest.hexdigest(),), digest.hexdigest())


def _variable(text: str, _: Path) -> SideValue:
    return SideValue(text, (text,))


def _usual_qemu() -> str:
    from pytest_vperf.targets.pod import QEMU

    return QEMU


def _usual_engine() -> str:
    from pytest_vperf.targets.container.address import default_sockets

    return os.environ.get("DOCKER_HOST") or f"unix://{default_sockets()[0]}"


def _usual_folder() -> str:
    return os.environ.get("PATH", os.defpath).partition(os.pathsep)[0]


@dataclass(frozen=True)
class SideKey:
    """A key that the sides of a gate may have: ``--claims-head NAME=VALUE``.

    Attributes:
        name: the key; that of environment variables ends with a dot, and a variable's name follows.
        read: reads its value; relative paths are seen from the folder. Raises `ValueError` or `OSError`, with what
            is wrong.
        fixtures: those that depend on it; tests that use none of them are left out of a gate of this key alone. If it
            is empty, any test may depend on it.
        usual: what a side has that does not say, as one would type it; empty if that is not known.
        option: the ini setting of an option that says so, rather than ``usual``.
        version: of a setting, what the program says its version is.
        anywhere: whether it may be given where targets are started on another machine, by ``--vperf-on``.
        empty: whether the value may be empty.
    """

    name: str
    read: Callable[[str, Path], SideValue]
    fixtures: frozenset[str] = frozenset()
    usual: Callable[[], str] = str
    option: str = ""
    version: Callable[[str], str] = lambda setting: ""
    anywhere: bool = False
    empty: bool = False


def _kernel_version(setting: str) -> str:
    from pytest_vperf.targets.kernel.guest_kernel import read_release

    return f"Linux {read_release(Path(setting))}"


def program_version(setting: str) -> str:
    """What a program says its version is, in one line; empty if it says none.

    Args:
        setting: the program's path, with arguments that it is called with.
    """
    from pytest_vperf.targets.container.runtimes import version

    return version(shlex.split(setting)[0])


def _qemu_version(setting: str) -> str:
    from pytest_vperf.targets.container.runtimes import version

    return version(setting)


#: The fixtures that everything starts containers and machines through.
_CONTAINERS = frozenset({"containers_with", "oci"})
_MACHINES = frozenset({"pods_on", "guests_on", "domus"})
#: Our own keys.
KEYS = (
    SideKey("runtime", program_of_side, _CONTAINERS, version=program_version),
    SideKey(
        "image",
        _image,
        _CONTAINERS | _MACHINES | {"_vperf_native"},
        option="container_image",
        anywhere=True,
    ),
    SideKey(
        "kernel",
        _kernel,
        _MACHINES,
        option="guest_kernel",
        version=_kernel_version,
        anywhere=True,
    ),
    SideKey("qemu", _qemu, _MACHINES - {"domus"}, _usual_qemu, version=_qemu_version),
    SideKey("firmware", _file, frozenset({"pods_on"})),
    SideKey("engine", _engine, frozenset({"containers_with"}), _usual_engine, anywhere=True),
    SideKey("path", _folder, usual=_usual_folder),
    SideKey(ENV, _variable, empty=True),
)
_SETTING = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9_-]*):)?(env\.[A-Za-z_][A-Za-z0-9_]*|[a-z][a-z0-9_.]*)=(.*)", re.S
)


#: By option: the side that it is about where it names none, and the option that names a kernel of that side.
_OPTIONS = {"claims_base": (BASE, "baseline_kernel"), "claims_head": (HEAD, "vperf_kernel")}


def key_of(keys: Mapping[str, SideKey], setting: str) -> SideKey | None:
    """The key of a setting of a side; ``None`` if there is no such key.

    Args:
        keys: by name.
        setting: its name; of an environment variable ``env.NAME``.
    """
    return keys.get(ENV if setting.startswith(ENV) else setting)


def read_sides(config: pytest.Config, keys: Mapping[str, SideKey]) -> Sides:
    """The sides of a run; none where it is no gate.

    Args:
        config: of the run.
        keys: that sides may have, by name.

    Raises:
        pytest.UsageError: a setting is not understood, there is no head, or two sides are the same.
    """
    found: dict[str, dict[str, SideValue]] = {}
    for option, name, key, value in _given(config, keys):
        of_side = found.setdefault(name, {})
        if key in of_side:
            raise pytest.UsageError(f"{OPTIONS[option].name}: {key} is given twice for {name}")
        of_side[key] = value
    base = found.pop(BASE, {})
    if not found:
        # In the ini file a base waits for a run with a head.
        for option, other in (
            ("claims_base", "--claims-head KEY=VALUE"),
            ("baseline_kernel", "--vperf-kernel=FILE"),
        ):
            if config.getoption(option) is not None:
                raise pytest.UsageError(
                    f"{OPTIONS[option].name}: there is no head to compare it with: {other}"
                )
        return Sides()
    on_purpose = bool(config.getoption("same_on_purpose") or config.getini("same_on_purpose"))
    if not on_purpose:
        _refuse_same(config, keys, base, found)
    heads = tuple(_side(name, values) for name, values in found.items())
    return Sides(_side(BASE, base), heads, same_on_purpose=on_purpose)


def _given(
    config: pytest.Config, keys: Mapping[str, SideKey]
) -> Iterator[tuple[str, str, str, SideValue]]:
    """The settings of all sides: the option, the side's name, the key and the value."""
    for option, (usual, kernel) in _OPTIONS.items():
        for text, folder in _texts(config, option):
            try:
                yield option, *_read(text, folder, usual, keys)
            except ValueError as error:
                raise pytest.UsageError(f"{OPTIONS[option].name}: {error}") from None
        for text, folder in _texts(config, kernel):
            try:
                if not text.strip():
                    raise ValueError("the file's name is empty")
                yield kernel, usual, "kernel", _kernel(text, folder)
            except OSError as error:
                why = f"{error.filename or text}: {error.strerror or error}"
                raise pytest.UsageError(f"{OPTIONS[kernel].name}: {why}") from None
            except ValueError as error:
                raise pytest.UsageError(f"{OPTIONS[kernel].name}: {error}") from None


def _texts(config: pytest.Config, option: str) -> list[tuple[str, Path]]:
    """What was given, each with the folder that its paths are seen from."""
    folder = config.invocation_params.dir
    given = config.getoption(option)
    if given is None:
        folder, given = config.rootpath, config.getini(option) or []
    return [(text, folder) for text in ([given] if isinstance(given, str) else given)]


def _read(
    text: str, folder: Path, usual: str, keys: Mapping[str, SideKey]
) -> tuple[str, str, SideValue]:
    """The side's name, the key and the value of one setting."""
    found = _SETTING.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not KEY=VALUE, such as runtime=./build/runc; {_known(keys)}")
    name, key, value = found[1] or usual, found[2], found[3].strip()
    if found[1] and (usual == BASE or name == BASE):
        raise ValueError(f"{text!r}: only heads have names, and none is called {BASE}")
    if len(name) > MOST_SIDE:
        raise ValueError(f"{name[:40]!r}…: a head's name has at most {MOST_SIDE} characters")
    known = key_of(keys, key)
    if known is None or key == ENV:
        hint = nearest(key, [each for each in keys if each != ENV])
        raise ValueError(f"there is no key {key!r}{hint or f'; {_known(keys)}'}")
    if not value and not known.empty:
        raise ValueError(f"{key}= has no value")
    try:
        return name, key, known.read(value, folder)
    except OSError as error:
        raise ValueError(f"{key}: {error.filename or value}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _known(keys: Mapping[str, SideKey]) -> str:
    names = [f"{key}NAME" if key == ENV else key for key in keys]
    return f"the keys are {', '.join(names)}"


def _refuse_same(
    config: pytest.Config,
    keys: Mapping[str, SideKey],
    base: Mapping[str, SideValue],
    heads: Mapping[str, Mapping[str, SideValue]],
) -> None:
    """Refuse a head that differs in nothing from base, or from another head; what a side lacks is the usual one."""
    sides = {BASE: dict(base), **{name: dict(values) for name, values in heads.items()}}
    for key in sorted({key for values in sides.values() for key in values}):
        lacking = [values for values in sides.values() if key not in values]
        if lacking and (usual := _usual(config, keys, key, sides.values())) is not None:
            for values in lacking:
                values[key] = usual
    names = list(sides)
    for place, name in enumerate(names):
        for other in names[:place]:
            if {key: each.same for key, each in sides[name].items()} == {
                key: each.same for key, each in sides[other].items()
            }:
                raise pytest.UsageError(
                    f"both sides are the same bytes: {other} ({_words(sides[other])}) and {name} "
                    f"({_words(sides[name])}); to compare them all the same: {SAME_ON_PURPOSE}"
                )


def _usual(
    config: pytest.Config,
    keys: Mapping[str, SideKey],
    key: str,
    sides: Iterable[Mapping[str, SideValue]],
) -> SideValue | None:
    """What a side has that does not name a key; ``None`` if that is not known here."""
    if key.startswith(ENV):
        now = os.environ.get(key.removeprefix(ENV))
        return SideValue("", ()) if now is None else _variable(now, Path())
    known = keys[key]
    texts = _texts(config, known.option) if known.option else []
    if key == "runtime":
        from pytest_vperf.targets.container.runtimes import Build

        given = next(values[key].setting for values in sides if key in values)
        texts = [(Build.of(given).kind, Path("/"))]
    for text, folder in texts or [(known.usual(), Path("/"))]:
        with contextlib.suppress(OSError, ValueError):
            return known.read(text, folder) if text else None
    return None


def _words(values: Mapping[str, SideValue]) -> str:
    return ", ".join(
        f"{key}={each.setting}" + (f", sha256 {each.sha256[:12]}" if each.sha256 else "")
        for key, each in sorted(values.items())
    )


def _side(name: str, values: Mapping[str, SideValue]) -> Side:
    return Side(
        name,
        {key: each.setting for key, each in values.items()},
        {key: each.sha256 for key, each in values.items() if each.sha256},
    )


def untouched(
    sides: Sides,
    keys: Mapping[str, SideKey],
    items: Iterable[pytest.Item],
    starting: frozenset[str],
) -> list[pytest.Item]:
    """The tests whose targets depend on nothing that the sides differ in; what cannot be told is none of them.

    Args:
        sides: of a gate.
        keys: by name.
        items: its tests that ask for claims.
        starting: the fixtures that start targets; a test with none of them may start some by other means.
    """
    given = {ENV if key.startswith(ENV) else key for side in sides.all for key in side.settings}
    reach = [keys[key].fixtures for key in given]
    if not all(reach):
        return []
    touched = frozenset().union(*reach)

    def uses(item: pytest.Item, fixtures: frozenset[str]) -> bool:
        return not fixtures.isdisjoint(getattr(item, "fixturenames", ()))

    return [item for item in items if uses(item, starting) and not uses(item, touched)]


def described(sides: Sides, keys: Mapping[str, SideKey], *, ask: bool) -> Iterator[str]:
    """A line for each side: what it is, and, if its program is to be asked, what that says its version is."""
    for name, settings in recorded(sides, keys, ask=ask).items():
        parts = []
        for key, facts in settings.items():
            digest = facts.get("sha256", "")
            told = (facts.get("version", ""), f"sha256 {digest[:12]}" * bool(digest))
            more = ", ".join(filter(None, told))
            parts.append(f"{key}={facts['is']}" + (f" ({more})" if more else ""))
        yield f"{name}: {', '.join(parts) or 'what the run uses otherwise'}"


def recorded(
    sides: Sides, keys: Mapping[str, SideKey], *, ask: bool = True
) -> dict[str, dict[str, dict[str, str]]]:
    """What each setting of each side is, for the record: ``is``, ``version``, ``sha256``, and what an image's name or
    an engine's address ``turned_out`` to be, if that is known.

    Args:
        sides: of the run.
        keys: by name.
        ask: whether programs are called for their version.
    """
    return {
        side.name: {
            key: {
                name: value
                for name, value in (
                    ("is", text),
                    ("version", _key(keys, key).version(text) if ask else ""),
                    ("sha256", side.identity.get(key, "")),
                    ("turned_out", sides.learnt.get((side.name, key), "")),
                )
                if value or name == "is"
            }
            for key, text in side.settings.items()
        }
        for side in (sides.all if sides else ())
    }


def changed(sides: Sides, keys: Mapping[str, SideKey]) -> str:
    """What is no longer the file that it was when the run began, in one line; empty if all are."""
    for side in sides.all:
        for key, text in side.settings.items():
            try:
                now = _key(keys, key).read(text, Path("/")).sha256
            except (OSError, ValueError) as error:
                return f"{key} of side {side.name} is not what it was when the run began: {error}"
            if now != side.identity.get(key, ""):
                return f"{key} of side {side.name} has changed since the run began: {text}"
    return ""


def _key(keys: Mapping[str, SideKey], setting: str) -> SideKey:
    found = key_of(keys, setting)
    assert found is not None, setting  # it was read by its key
    return found
