"""The settings of a run, read once from the command line and the ini file.

A value that is not understood is refused with the name of its option (design rule 2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_vperf.claims import judge
from pytest_vperf.claims.judge import Setting
from pytest_vperf.options import (
    ACCELERATORS,
    DEFAULT_RUNTIME,
    DEFAULT_SESSIONS,
    DEFAULT_START_TIMEOUT,
    LABS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Mode = Literal["judge", "strict", "advisory"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


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
    json = _path(config, "claims_json", "--claims-json")
    kernel = _path(config, "guest_kernel", "--guest-kernel")
    if kernel is not None and not kernel.is_file():
        raise pytest.UsageError(f"--guest-kernel: {kernel} is not a file")
    new_kernel = _kernel(config, "new_kernel", "--kernel")
    baseline_kernel = _kernel(config, "baseline_kernel", "--baseline-kernel")
    if new_kernel is None and config.getoption("baseline_kernel") is not None:
        raise pytest.UsageError(
            "--baseline-kernel: there is no kernel to compare with it: name one with --kernel=FILE"
        )
    return Settings(
        hardware=_text(config, "claims_hw") or "auto",
        mode=_mode(config),
        judge={key: _setting(config, key) for key in judge.DEFAULTS},
        sessions=_sessions(_text(config, "claims_sessions") or DEFAULT_SESSIONS),
        json=json,
        thresholds=_folders(config),
        runtimes=_names(config, "container_runtime", "--container-runtime") or (DEFAULT_RUNTIME,),
        image=_image(config),
        host_tools=bool(config.getoption("host_tools") or _flag(config, "host_tools")),
        on=_on(config),
        load_host=_load_host(_text(config, "load_host")),
        libvirt_uris=_libvirt_uris(config),
        labs=_labs(config),
        guest_kernel=kernel,
        new_kernel=new_kernel,
        baseline_kernel=baseline_kernel,
        accelerators=_accelerators(config),
        start_timeout=_time(
            _text(config, "start_timeout"), "--start-timeout", DEFAULT_START_TIMEOUT, 120.0
        ),
        seed=_seed(_text(config, "claims_seed")),
    )


def _kernel(config: pytest.Config, name: str, option: str) -> Path | None:
    """A kernel of a comparison: its header is read now, since the other claims of a run may take hours."""
    path = _path(config, name, option)
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


def _libvirt_uris(config: pytest.Config) -> Mapping[str, str]:
    from pytest_vperf.targets.virt import address

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


def _on(config: pytest.Config) -> str:
    text = _text(config, "on")
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


def _load_host(text: str | None) -> str:
    if text in (None, "embedded"):
        return ""
    from pytest_vperf.targets.ssh_connection import parse_url

    try:
        parse_url(str(text))
    except ValueError as error:
        raise pytest.UsageError(f"--load-host: {error}, nor 'embedded'") from None
    return str(text)


def _text(config: pytest.Config, name: str) -> str | None:
    value: Any = config.getoption(name)
    if value is None:
        value = config.getini(name)
    return str(value).strip() or None if value is not None else None


def _mode(config: pytest.Config) -> Mode:
    for strict, advisory, source in (
        (config.getoption("claims_strict"), config.getoption("claims_advisory"), "--claims-{}"),
        (_flag(config, "claims_strict"), _flag(config, "claims_advisory"), "claims_{} = true"),
    ):
        if strict and advisory:
            names = f"{source.format('strict')} and {source.format('advisory')}"
            raise pytest.UsageError(f"{names} contradict each other: give one of them")
        if strict or advisory:
            return "strict" if strict else "advisory"
    return "judge"


def _flag(config: pytest.Config, name: str) -> bool:
    try:
        return bool(config.getini(name))
    except (TypeError, ValueError, pytest.UsageError) as error:
        raise pytest.UsageError(f"{name}: {error}") from None


def _time(text: str | None, option: str, usual: str, seconds: float) -> float:
    """A time in seconds; ``seconds`` is what ``usual`` means."""
    if text is None or text == usual:
        return seconds  # the usual case must not pay for importing pint
    try:
        return judge.read_seconds(text)
    except ValueError as error:
        raise pytest.UsageError(f"{option}: {error}") from None


def _setting(config: pytest.Config, key: str) -> Setting:
    """A setting of the judge; the default without importing pint."""
    name, option = f"claims_{key}", f"--claims-{key}"
    text = _text(config, name)
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


def _seed(text: str | None) -> int:
    if text is None:
        import secrets

        return secrets.randbelow(2**32)
    if not re.fullmatch(r"\d{1,18}", text):
        raise pytest.UsageError(f"--claims-seed: {text!r} is not a whole number from 0 on")
    return int(text)


def _path(config: pytest.Config, name: str, option: str) -> Path | None:
    """A path from the command line is seen from where pytest was called, one from the ini file from the root."""
    given = config.getoption(name)
    text = given if given is not None else config.getini(name)
    if given is not None and not str(given).strip():
        raise pytest.UsageError(f"{option}: the file's name is empty")
    if not text:
        return None
    base = config.invocation_params.dir if given is not None else config.rootpath
    return base / str(text)


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


def _names(config: pytest.Config, name: str, option: str) -> tuple[str, ...]:
    given = config.getoption(name)
    texts = given if given is not None else [config.getini(name) or ""]
    names = [part.strip() for text in texts for part in text.split(",")]
    if given is None and names == [""]:
        return ()
    for part in names:
        if not _NAME.fullmatch(part):
            raise pytest.UsageError(f"{option}: {part!r} is not a name")
    return tuple(dict.fromkeys(names))


def _accelerators(config: pytest.Config) -> tuple[str, ...]:
    names = _names(config, "pod_accelerator", "--accelerator")
    for name in names:
        if name not in (*ACCELERATORS, "auto"):
            raise pytest.UsageError(
                f"--accelerator: {name!r} is not known; there are {', '.join(ACCELERATORS)} and auto"
            )
    if "auto" in names and len(names) > 1:
        raise pytest.UsageError("--accelerator: auto stands alone")
    return () if names == ("auto",) else names


def _labs(config: pytest.Config) -> tuple[str, ...]:
    names = _names(config, "lab", "--lab")
    for name in names:
        if name not in LABS:
            raise pytest.UsageError(
                f"--lab: there is no lab {name!r}; there are: {', '.join(LABS)}"
            )
    return names


def _image(config: pytest.Config) -> str | None:
    path = _path(config, "container_image", "--container-image")
    if path is None:
        return None
    if path.suffix != ".tar":
        return _text(config, "container_image")
    if not path.is_file():
        raise pytest.UsageError(f"--container-image: {path} is not a file")
    return str(path)
