"""The settings of a run that say what targets are, and where: read from the command line and the ini file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.option_values import names_of, path_of, text_of
from pytest_vperf.options import ACCELERATORS, LABS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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
    from pytest_vperf.targets.ssh_connection import parse_url

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
