"""The settings of a run, read once from the command line and the ini file.

A value that is not understood is refused with the name of its option (design rule 2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_vperf.claims import judge
from pytest_vperf.claims.judge import Setting
from pytest_vperf.option_values import (
    flag_of,
    names_of,
    number_of,
    path_of,
    size_of,
    text_of,
    time_of,
)
from pytest_vperf.options import (
    DEFAULT_RUNTIME,
    DEFAULT_SCALE_COUNT,
    DEFAULT_SESSIONS,
    DEFAULT_START_TIMEOUT,
)
from pytest_vperf.target_settings import (
    read_accelerators,
    read_image,
    read_kernel,
    read_labs,
    read_libvirt_uris,
    read_load_host,
    read_on,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
