"""The settings of a run, read once from the command line and the ini file.

A value that is not understood is refused with the name of its option (design rule 2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_vperf.run.options import (
    ACCELERATORS,
    DEFAULT_RUNTIME,
    DEFAULT_SCALE_COUNT,
    DEFAULT_SESSIONS,
    DEFAULT_START_TIMEOUT,
    LABS,
)
from pytest_vperf.thresholds import judge
from pytest_vperf.thresholds.judge import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


# What an option or its ini setting says: text, flag, path, names, or time. The command line comes before the ini.

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


# The settings of a run that say what targets are, and where: read from the command line and the ini file.


def read_kernel(config: pytest.Config, name: str, option: str) -> Path | None:
    """A kernel of a comparison: its header is read now, since the other claims of a run may take hours."""
    path = path_of(config, name, option)
    if path is None:
        return None
    if not path.is_file():
        raise pytest.UsageError(f"{option}: {path} is not a file")
    from pytest_vperf.targets.base import CannotStart
    from pytest_vperf.targets.kernel.guest_kernel import read_release

    try:
        read_release(path)
    except OSError as error:
        raise pytest.UsageError(f"{option}: {path}: {error.strerror or error}") from None
    except CannotStart as error:
        raise pytest.UsageError(f"{option}: {error}") from None
    return path


def read_libvirt_uris(config: pytest.Config) -> Mapping[str, str]:
    """The daemons of ``--libvirt-uri``, by their drivers.

    Raises:
        pytest.UsageError: one is no address of a daemon, or two have the same driver.
    """
    from pytest_vperf.targets.libvirt import address

    given = config.getoption("libvirt_uri") or config.getini("libvirt_uri")
    found: dict[str, str] = {}
    for uri in given:
        try:
            driver = address.driver(address.check(uri))
        except ValueError as error:
            raise pytest.UsageError(f"--libvirt-uri: {error}") from None
        if driver in found:
            raise pytest.UsageError(f"--libvirt-uri: two for {driver}: {found[driver]} and {uri}")
        found[driver] = uri
    return found


def read_on(config: pytest.Config) -> str:
    """The machine of ``--on``; empty: this one.

    Raises:
        pytest.UsageError: it names no machine; or several processes would measure on it.
    """
    text = text_of(config, "on")
    if text is None:
        return ""
    if any(config.getoption(name, None) for name in ("numprocesses", "tx")):
        raise pytest.UsageError(
            "--on: one run at a time measures on another machine: run without pytest-xdist's -n"
        )
    from pytest_vperf.targets.remote import address

    try:
        return address.check(text, LABS)
    except ValueError as error:
        raise pytest.UsageError(f"--on: {error}") from None


def read_load_host(text: str | None) -> str:
    """The other host of ``--load-host``; empty: a namespace of this machine.

    Raises:
        pytest.UsageError: it names no machine.
    """
    if text in (None, "embedded"):
        return ""
    from pytest_vperf.targets.remote.connection import parse_url

    try:
        parse_url(str(text))
    except ValueError as error:
        raise pytest.UsageError(f"--load-host: {error}, nor 'embedded'") from None
    return str(text)


def read_accelerators(config: pytest.Config) -> tuple[str, ...]:
    """The accelerators of ``--accelerator``; empty is auto.

    Raises:
        pytest.UsageError: one is not known.
    """
    names = names_of(config, "pod_accelerator", "--accelerator")
    for name in names:
        if name not in (*ACCELERATORS, "auto"):
            raise pytest.UsageError(
                f"--accelerator: {name!r} is not known; there are {', '.join(ACCELERATORS)} and auto"
            )
    if "auto" in names and len(names) > 1:
        raise pytest.UsageError("--accelerator: auto stands alone")
    return () if names == ("auto",) else names


def read_labs(config: pytest.Config) -> tuple[str, ...]:
    """The kinds of ``--lab``.

    Raises:
        pytest.UsageError: there is no such kind.
    """
    names = names_of(config, "lab", "--lab")
    for name in names:
        if name not in LABS:
            raise pytest.UsageError(
                f"--lab: there is no lab {name!r}; there are: {', '.join(LABS)}"
            )
    return names


def read_image(config: pytest.Config) -> str | None:
    """The image of ``--container-image``: a reference, or the absolute path of a ``.tar``; ``None``: ours.

    Raises:
        pytest.UsageError: the file is not there.
    """
    path = path_of(config, "container_image", "--container-image")
    if path is None:
        return None
    if path.suffix != ".tar":
        return text_of(config, "container_image")
    if not path.is_file():
        raise pytest.UsageError(f"--container-image: {path} is not a file")
    return str(path)


Mode = Literal["judge", "strict", "advisory"]


@dataclass(frozen=True)
class Settings:
    """What this run was asked for.

    Attributes:
        hardware: a profile's name, or ``auto``.
        mode: ``strict`` fails what was not proven, ``advisory`` fails nothing.
        judge: tolerance, alpha, beta, pairs and budget, each with where it comes from; a claim or its test may
            say otherwise, see `pytest_vperf.claims.plan`.
        sessions: in how many sessions a limit is judged, 3 or 1.
        json: where the record of the run goes.
        thresholds: folders of threshold files, beside the shipped ones.
        runtimes: OCI runtimes for containers, at least one.
        image: a container image's reference, or the absolute path of a ``.tar``; ``None`` builds one.
        host_tools: whether the host runs its own tools, and not the image's.
        on: the machine that targets are started on, ``ssh://…`` or ``lab:KIND``; empty: this one.
        load_host: ``ssh://…`` of the other host of network tests; empty: a network namespace of this machine.
        libvirt_uris: of the daemons that whole machines are started through, by driver, ``qemu`` or ``xen``; one
            that is not named is this machine's, or of the run.
        labs: kinds of hosts that are started inside QEMU where this machine is none: ``kvm``, ``xen``.
        guest_kernel: the kernel of pods and guests; ``None`` takes the distribution's.
        new_kernel: what claims that compare kernels are about; ``None``: they are not measured.
        baseline_kernel: what it is compared with; ``None`` takes the kernel of pods.
        accelerators: of pods; empty is auto.
        start_timeout: seconds that one pod may take to start.
        density: how far a test may fill this host: so many targets, bytes that they may take, bytes that it keeps.
        scale_count: how many targets run at once where a claim is about many.
        seed: of every random order, drawn per run where none was given; kept in each record.
    """

    hardware: str
    mode: Mode
    judge: Mapping[str, Setting]
    sessions: Literal[1, 3]
    json: Path | None
    thresholds: tuple[Path, ...]
    runtimes: tuple[str, ...]
    image: str | None
    host_tools: bool
    on: str
    load_host: str
    libvirt_uris: Mapping[str, str]
    labs: tuple[str, ...]
    guest_kernel: Path | None
    new_kernel: Path | None
    baseline_kernel: Path | None
    accelerators: tuple[str, ...]
    start_timeout: float
    density: Mapping[str, int | None]
    scale_count: int
    seed: int

    @property
    def budget(self) -> float:
        """Seconds that a claim may sample where neither it nor its test says otherwise."""
        return self.judge["budget"].value


def read_settings(config: pytest.Config) -> Settings:
    """The settings, the command line before the ini file.

    Raises:
        pytest.UsageError: a value is not understood; the message names the option.
    """
    json = path_of(config, "claims_json", "--claims-json")
    kernel = path_of(config, "guest_kernel", "--guest-kernel")
    if kernel is not None and not kernel.is_file():
        raise pytest.UsageError(f"--guest-kernel: {kernel} is not a file")
    new_kernel = read_kernel(config, "new_kernel", "--kernel")
    baseline_kernel = read_kernel(config, "baseline_kernel", "--baseline-kernel")
    if new_kernel is None and config.getoption("baseline_kernel") is not None:
        raise pytest.UsageError(
            "--baseline-kernel: there is no kernel to compare with it: name one with --kernel=FILE"
        )
    return Settings(
        hardware=text_of(config, "claims_hw") or "auto",
        mode=_mode(config),
        judge={key: _setting(config, key) for key in judge.DEFAULTS},
        sessions=_sessions(text_of(config, "claims_sessions") or DEFAULT_SESSIONS),
        json=json,
        thresholds=_folders(config),
        runtimes=names_of(config, "container_runtime", "--container-runtime") or (DEFAULT_RUNTIME,),
        image=read_image(config),
        host_tools=bool(config.getoption("host_tools") or flag_of(config, "host_tools")),
        on=read_on(config),
        load_host=read_load_host(text_of(config, "load_host")),
        libvirt_uris=read_libvirt_uris(config),
        labs=read_labs(config),
        guest_kernel=kernel,
        new_kernel=new_kernel,
        baseline_kernel=baseline_kernel,
        accelerators=read_accelerators(config),
        start_timeout=time_of(
            text_of(config, "start_timeout"), "--start-timeout", DEFAULT_START_TIMEOUT, 120.0
        ),
        density={
            "most": number_of(config, "density_max", "--density-max"),
            "memory": size_of(config, "density_memory", "--density-memory"),
            "floor": size_of(config, "density_floor", "--density-floor"),
        },
        scale_count=_count(text_of(config, "scale_count") or DEFAULT_SCALE_COUNT),
        seed=_seed(text_of(config, "claims_seed")),
    )


def _mode(config: pytest.Config) -> Mode:
    for strict, advisory, source in (
        (config.getoption("claims_strict"), config.getoption("claims_advisory"), "--claims-{}"),
        (flag_of(config, "claims_strict"), flag_of(config, "claims_advisory"), "claims_{} = true"),
    ):
        if strict and advisory:
            names = f"{source.format('strict')} and {source.format('advisory')}"
            raise pytest.UsageError(f"{names} contradict each other: give one of them")
        if strict or advisory:
            return "strict" if strict else "advisory"
    return "judge"


def _setting(config: pytest.Config, key: str) -> Setting:
    """A setting of the judge; the default without importing pint."""
    name, option = f"claims_{key}", f"--claims-{key}"
    text = text_of(config, name)
    if text is None:
        return Setting(judge.DEFAULTS[key], "default")
    try:
        value = judge.read(key, text)
    except ValueError as error:
        raise pytest.UsageError(f"{option}: {error}") from None
    return Setting(value, option if config.getoption(name) is not None else "ini")


def _sessions(text: str) -> Literal[1, 3]:
    if text not in ("1", "3"):
        raise pytest.UsageError(f"--claims-sessions: {text!r} is not 1 or 3")
    return 1 if text == "1" else 3


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text, re.ASCII):
        raise pytest.UsageError(f"--scale-count: {text!r} is not a whole number from 1 to 9999")
    return int(text)


def _seed(text: str | None) -> int:
    if text is None:
        import secrets

        return secrets.randbelow(2**32)
    if not re.fullmatch(r"\d{1,18}", text):
        raise pytest.UsageError(f"--claims-seed: {text!r} is not a whole number from 0 on")
    return int(text)


def _folders(config: pytest.Config) -> tuple[Path, ...]:
    given = config.getoption("claims_thresholds")
    if given is not None:
        folders = tuple(config.invocation_params.dir / text for text in given)
    elif named := config.getini("claims_thresholds"):
        folders = tuple(config.rootpath / text for text in named)
    else:
        usual = config.rootpath / "thresholds"
        return (usual,) if usual.is_dir() else ()
    for folder in folders:
        if not folder.is_dir():
            raise pytest.UsageError(f"--claims-thresholds: {folder} is not a folder")
    return folders
