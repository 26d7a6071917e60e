"""Finding and connecting to a Docker engine, and the error when one does not answer."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.base import CannotConnect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

#: Seconds for an engine's answer to a request, such as starting a container.
TIMEOUT = 120
_KNOCK_TIMEOUT = 3.0


def default_sockets() -> list[Path]:
    """The sockets an installed engine listens on: the system's, and the user's own (rootless)."""
    sockets = [Path("/var/run/docker.sock")]
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        sockets.append(Path(runtime) / "docker.sock")
    return sockets


def knock(path: Path) -> OSError | None:
    """Connect to a Unix socket and disconnect; return the error if that fails."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_KNOCK_TIMEOUT)
            probe.connect(str(path))
    except OSError as error:
        return error
    return None


def connect(url: str | None = None) -> DockerClient:
    """Connect to the engine at ``url``, by default the one named by ``DOCKER_HOST``, and negotiate the API version.

    Raises:
        CannotConnect: it does not answer; says where it was expected, and why it failed.
    """
    import docker
    from docker.utils import kwargs_from_env

    where = url or f"{os.environ.get('DOCKER_HOST', '')} (named by DOCKER_HOST)"
    try:
        options: Any = {"base_url": url} if url else kwargs_from_env()
        return docker.DockerClient(version="auto", timeout=TIMEOUT, **options)
    except (
        Exception
    ) as error:  # docker, requests, urllib3, ssl and paramiko each raise their own errors
        raise CannotConnect(
            f"the Docker engine at {where} does not answer: {plain(error)}"
        ) from error


@contextmanager
def answering(url: str, *, target: str = "") -> Iterator[None]:
    """Turn a lost connection to the engine at ``url`` into `CannotConnect`.

    Errors that the engine itself reports (``docker.errors.APIError``) pass through.
    """
    import requests
    import urllib3
    from docker.errors import APIError, DockerException

    try:
        yield
    except APIError:
        raise
    except (
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        DockerException,
        ConnectionError,
        TimeoutError,
    ) as error:
        raise CannotConnect(
            f"the Docker engine at {url} does not answer any more: {plain(error)}", target=target
        ) from error


def plain(error: BaseException) -> str:
    """The operating system's message inside a stack of wrapped errors, else the first line of the error itself."""
    seen: set[int] = set()
    pile: list[object] = [error]
    while pile:
        item = pile.pop(0)
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, OSError) and item.strerror:
            return item.strerror
        if isinstance(item, tuple):
            pile += item
        if isinstance(item, TimeoutError):
            return "it took too long"
        if isinstance(item, BaseException):
            pile += [*item.args, item.__cause__, item.__context__]
            pile.append(getattr(item, "reason", None))
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
