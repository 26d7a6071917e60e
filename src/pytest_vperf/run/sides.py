"""The sides of a gate, from the command line or the ini file: ``--claims-base KEY=VALUE --claims-head KEY=VALUE``.

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
from typing import TYPE_CHECKING, NamedTuple

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
class _Value:
    """What a setting of a side is.

    Attributes:
        setting: as targets read it; paths are absolute.
        same: equal for two values that are the same thing.
        sha256: of its file, or of a folder's files; empty if it has none.
    """

    setting: str
    same: tuple[object, ...]
    sha256: str = ""


def _runtime(text: str, folder: Path) -> _Value:
    """An OCI runtime by its name or path, with arguments."""
    try:
        program, *arguments = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    path = _program(program, folder)
    digest = file_sha256(path)
    return _Value(shlex.join((str(path), *arguments)), (digest, *arguments), digest)


def _qemu(text: str, folder: Path) -> _Value:
    """A QEMU by its name or path."""
    path = _program(text, folder)
    digest = file_sha256(path)
    return _Value(str(path), (digest,), digest)


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


def _file(text: str, folder: Path) -> _Value:
    path = _existing(text, folder)
    digest = file_sha256(path)
    return _Value(str(path), (digest,), digest)


def _kernel(text: str, folder: Path) -> _Value:
    """A kernel; its header is read now, since the other claims of a run may take hours."""
    from pytest_vperf.targets.base import CannotStart
    from pytest_vperf.targets.kernel.guest_kernel import read_release

    found = _file(text, folder)
    try:
        read_release(Path(found.setting))
    except CannotStart as error:
        raise ValueError(str(error)) from None
    return found


def _image(text: str, folder: Path) -> _Value:
    """An image: a reference that the engine has, or a file of ``docker export``."""
    return _file(text, folder) if text.endswith(".tar") else _Value(text, (text,))


def _engine(text: str, _: Path) -> _Value:
    """A Docker engine by its address."""
    if not re.match(r"(unix|tcp|ssh|http|https)://.", text):
        raise ValueError(f"{text!r} is no address such as unix:///run/docker.sock or ssh://HOST")
    return _Value(text, (text,))


def _folder(text: str, folder: Path) -> _Value:
    """A folder of programs."""
    path = _from(folder, text)
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder")
    digest = sha256()
    for each in sorted(path.iterdir()):
        if each.is_file():
            digest.update(f"{each.name}\0{file_sha256(each)}\0".encode())
    return _Value(str(path), (digest.hexdigest(),), digest.hexdigest())


def _variable(text: str, _: Path) -> _Value:
    return _Value(text, (text,))


def _usual_qemu() -> str:
    from pytest_vperf.targets.pod.qemu import QEMU

    return QEMU


def _usual_engine() -> str:
    from pytest_vperf.targets.container.address import default_sockets

    return os.environ.get("DOCKER_HOST") or f"unix://{default_sockets()[0]}"


def _usual_folder() -> str:
    return os.environ.get("PATH", os.defpath).partition(os.pathsep)[0]


class _Key(NamedTuple):
    """A setting that sides may have.

    Attributes:
        read: reads its value, seen from a folder.
        reach: the fixtures that depend on it; empty: any test may.
        usual: what a side without it has, where options do not say.
    """

    read: Callable[[str, Path], _Value]
    reach: frozenset[str] = frozenset()
    usual: Callable[[], str] = str


#: The fixtures that everything starts containers and machines through.
_CONTAINERS = frozenset({"containers_with", "oci"})
_MACHINES = frozenset({"pods_on", "guests_on", "domus"})
#: By name; ``env.`` is followed by a variable's.
_KEYS: Mapping[str, _Key] = {
    "runtime": _Key(_runtime, _CONTAINERS),
    "image": _Key(_image, _CONTAINERS | _MACHINES | {"native"}),
    "kernel": _Key(_kernel, _MACHINES),
    "qemu": _Key(_qemu, _MACHINES - {"domus"}, _usual_qemu),
    "firmware": _Key(_file, frozenset({"pods_on"})),
    "engine": _Key(_engine, frozenset({"containers_with"}), _usual_engine),
    "path": _Key(_folder, usual=_usual_folder),
    ENV: _Key(_variable),
}
#: The fixtures that start targets: what a test has none of it may start by other means.
_TARGETS = _CONTAINERS | _MACHINES | {"native", "kernels"}
_SETTING = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9_-]*):)?(env\.[A-Za-z_][A-Za-z0-9_]*|[a-z_.]+)=(.*)", re.S
)


#: By option: the side that it is about where it names none, and the option that names a kernel of that side.
_OPTIONS = {"claims_base": (BASE, "baseline_kernel"), "claims_head": (HEAD, "vperf_kernel")}


def read_sides(config: pytest.Config) -> Sides:
    """The sides of a run; none where it is no gate.

    Raises:
        pytest.UsageError: a setting is not understood, there is no head, or two sides are the same.
    """
    found: dict[str, dict[str, _Value]] = {}
    for option, name, key, value in _given(config):
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
        _refuse_same(config, base, found)
    heads = tuple(_side(name, values) for name, values in found.items())
    return Sides(_side(BASE, base), heads, same_on_purpose=on_purpose)


def _given(config: pytest.Config) -> Iterator[tuple[str, str, str, _Value]]:
    """The settings of all sides: the option, the side's name, the key and the value."""
    for option, (usual, kernel) in _OPTIONS.items():
        for text, folder in _texts(config, option):
            try:
                yield option, *_read(text, folder, usual)
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


def _read(text: str, folder: Path, usual: str) -> tuple[str, str, _Value]:
    """The side's name, the key and the value of one setting."""
    found = _SETTING.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not KEY=VALUE, such as runtime=./build/runc; {_known()}")
    name, key, value = found[1] or usual, found[2], found[3].strip()
    if found[1] and (usual == BASE or name == BASE):
        raise ValueError(f"{text!r}: only heads have names, and none is called {BASE}")
    if len(name) > MOST_SIDE:
        raise ValueError(f"{name[:40]!r}…: a head's name has at most {MOST_SIDE} characters")
    known = _KEYS.get(ENV if key.startswith(ENV) else key)
    if known is None or key == ENV:
        hint = nearest(key, [each for each in _KEYS if each != ENV])
        raise ValueError(f"there is no key {key!r}{hint or f'; {_known()}'}")
    if not value and known.read is not _variable:
        raise ValueError(f"{key}= has no value")
    try:
        return name, key, known.read(value, folder)
    except OSError as error:
        raise ValueError(f"{key}: {error.filename or value}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _known() -> str:
    names = [f"{key}NAME" if key == ENV else key for key in _KEYS]
    return f"the keys are {', '.join(names)}"


def _refuse_same(
    config: pytest.Config, base: Mapping[str, _Value], heads: Mapping[str, Mapping[str, _Value]]
) -> None:
    """Refuse a head that differs in nothing from base, or from another head; what a side lacks is the usual one."""
    sides = {BASE: dict(base), **{name: dict(values) for name, values in heads.items()}}
    for key in sorted({key for values in sides.values() for key in values}):
        lacking = [values for values in sides.values() if key not in values]
        if lacking and (usual := _usual(config, key, sides.values())) is not None:
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


def _usual(config: pytest.Config, key: str, sides: Iterable[Mapping[str, _Value]]) -> _Value | None:
    """What a side has that does not name a key; ``None`` if that is not known here."""
    if key.startswith(ENV):
        now = os.environ.get(key.removeprefix(ENV))
        return _Value("", ()) if now is None else _variable(now, Path())
    known = _KEYS[key]
    texts = _texts(config, option) if (option := _USUAL_OPTIONS.get(key)) is not None else []
    if key == "runtime":
        from pytest_vperf.targets.container.runtimes import Build

        given = next(values[key].setting for values in sides if key in values)
        texts = [(Build.of(given).kind, Path("/"))]
    for text, folder in texts or [(known.usual(), Path("/"))]:
        with contextlib.suppress(OSError, ValueError):
            return known.read(text, folder) if text else None
    return None


#: By key: the option that says what targets of any side have.
_USUAL_OPTIONS = {"image": "container_image", "kernel": "guest_kernel"}


def _words(values: Mapping[str, _Value]) -> str:
    return ", ".join(
        f"{key}={each.setting}" + (f", sha256 {each.sha256[:12]}" if each.sha256 else "")
        for key, each in sorted(values.items())
    )


def _side(name: str, values: Mapping[str, _Value]) -> Side:
    return Side(
        name,
        {key: each.setting for key, each in values.items()},
        {key: each.sha256 for key, each in values.items() if each.sha256},
    )


def untouched(sides: Sides, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests whose targets depend on nothing that the sides differ in; what cannot be told is none of them.

    Args:
        sides: of a gate.
        items: its tests that ask for claims.
    """
    given = {ENV if key.startswith(ENV) else key for side in sides.all for key in side.settings}
    reach = [_KEYS[key].reach for key in given]
    if not all(reach):
        return []
    touched = frozenset().union(*reach)

    def uses(item: pytest.Item, fixtures: frozenset[str]) -> bool:
        return not fixtures.isdisjoint(getattr(item, "fixturenames", ()))

    return [item for item in items if uses(item, _TARGETS) and not uses(item, touched)]


def described(sides: Sides, *, ask: bool) -> Iterator[str]:
    """A line for each side: what it is, and, if its program is to be asked, what that says its version is."""
    for name, settings in recorded(sides, ask=ask).items():
        parts = []
        for key, facts in settings.items():
            digest = facts.get("sha256", "")
            told = (facts.get("version", ""), f"sha256 {digest[:12]}" * bool(digest))
            more = ", ".join(filter(None, told))
            parts.append(f"{key}={facts['is']}" + (f" ({more})" if more else ""))
        yield f"{name}: {', '.join(parts) or 'what the run uses otherwise'}"


def recorded(sides: Sides, *, ask: bool = True) -> dict[str, dict[str, dict[str, str]]]:
    """What each setting of each side is, for the record: ``is``, ``version``, ``sha256``, and what an image's name or
    an engine's address ``turned_out`` to be, if that is known.

    Args:
        sides: of the run.
        ask: whether programs are called for their version.
    """
    return {
        side.name: {
            key: {
                name: value
                for name, value in (
                    ("is", text),
                    ("version", _version(key, text) if ask else ""),
                    ("sha256", side.identity.get(key, "")),
                    ("turned_out", sides.learnt.get((side.name, key), "")),
                )
                if value or name == "is"
            }
            for key, text in side.settings.items()
        }
        for side in (sides.all if sides else ())
    }


def changed(sides: Sides) -> str:
    """What is no longer the file that it was when the run began, in one line; empty if all are."""
    for side in sides.all:
        for key, text in side.settings.items():
            known = _KEYS[ENV if key.startswith(ENV) else key]
            try:
                now = known.read(text, Path("/")).sha256
            except (OSError, ValueError) as error:
                return f"{key} of side {side.name} is not what it was when the run began: {error}"
            if now != side.identity.get(key, ""):
                return f"{key} of side {side.name} has changed since the run began: {text}"
    return ""


def _version(key: str, text: str) -> str:
    """What a program or a kernel says its version is; empty if it has none."""
    if key == "kernel":
        from pytest_vperf.targets.kernel.guest_kernel import read_release

        return f"Linux {read_release(Path(text))}"
    if key in ("runtime", "qemu"):
        from pytest_vperf.targets.container.runtimes import version

        return version(shlex.split(text)[0] if key == "runtime" else text)
    return ""
