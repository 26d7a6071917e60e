"""The root file system of containers and pods: one tar file, built or exported on this machine.

No registry is contacted. The default is the distribution's static busybox in a bare tree; a user's own image comes
from a Docker engine, or from a tar file written by ``docker export``. Exporting keeps files only: the image's
environment, entry point and user are lost.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine import cache
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.image.tar import members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker import DockerClient

#: The repository of imported root file systems in an engine, and the label with their full hash.
REPOSITORY = "pytest-vperf/rootfs"
LABEL_ROOTFS = "pytest-vperf.rootfs"
#: Most bytes of an image exported from an engine.
LARGEST = 64 << 30


@dataclass(frozen=True)
class Rootfs:
    """A root file system.

    Attributes:
        path: an uncompressed tar file.
        sha256: its hash, in hexadecimal.
        name: where it comes from, in a few words.
        without: tools that it lacks, each with the reason.
    """

    path: Path
    sha256: str
    name: str
    without: tuple[tuple[str, str], ...] = ()


def default_rootfs() -> Rootfs:
    """A minimal root file system around a static busybox; equal inputs give equal bytes.

    Raises:
        Unavailable: no static busybox is installed and none can be fetched from the distribution.
    """
    from pytest_vperf.targets.image import busybox

    program = busybox.find()
    applets = busybox.applets(program)
    key = cache.content_key([busybox.LAYOUT, program.read_bytes(), *applets])
    folder = cache.entry(
        "rootfs", key, lambda draft: busybox.write_tar(program, applets, draft / "rootfs.tar")
    )
    path = folder / "rootfs.tar"
    return Rootfs(path, cache.file_sha256(path), f"busybox {busybox.version(program)}")


def from_tar(path: Path) -> Rootfs:
    """A user's root file system, as written by ``docker export``.

    Raises:
        CannotStart: the file is missing, truncated, compressed, or was written by ``docker save``.
    """
    count, upper = 0, set()
    for member in members(path):
        count += 1
        name = member.name.removeprefix("./")
        if "/" not in name:
            upper.add(name)
    if not count:
        raise CannotStart(f"the image {path} is an empty tar archive")
    if "manifest.json" in upper and not {"bin", "usr"} & upper:
        raise CannotStart(
            f"the image {path} was written by docker save, which keeps layers;"
            " docker export writes the files that are needed here"
        )
    return Rootfs(path.absolute(), cache.file_sha256(path), str(path))


def export(
    client: DockerClient,
    reference: str,
    *,
    labels: Mapping[str, str] | None = None,
    where: str = "the Docker engine",
) -> Rootfs:
    """An image of a Docker engine as a tar file, cached under the image's ID.

    Args:
        client: the engine that has the image.
        reference: the image's name or ID; or the path of a tar file, see `from_tar`.
        labels: for the container that is created for the export, never started, and removed.
        where: the engine's name for messages.

    Raises:
        CannotStart: the engine does not have the image, which is never pulled.
    """
    from docker.errors import APIError, NotFound

    if reference.endswith(".tar") or reference.startswith(("/", "./", "../")):
        return from_tar(Path(reference))
    api: Any = client.api
    try:
        image_id: str = api.inspect_image(reference)["Id"]
    except NotFound:
        raise CannotStart(
            f"the image {reference} is not in {where};"
            f" fetch it with `docker pull {reference}`, or leave out --container-image"
            " to use the image built here"
        ) from None
    except APIError as error:
        raise CannotStart(
            f"the Docker engine refused the image {reference!r}: {error.explanation}"
        ) from error

    def build(draft: Path) -> None:
        # An image without a command needs one here; it is never run.
        container = api.create_container(
            image_id, ["/bin/true"], labels=dict(labels or {}), network_disabled=True
        )["Id"]
        try:
            with (draft / "rootfs.tar").open("wb") as stream:
                for chunk in api.export(container):
                    stream.write(chunk)
                    if stream.tell() > LARGEST:
                        raise CannotStart(
                            f"the image {reference} has more than {LARGEST >> 30} GiB of files"
                        )
        finally:
            api.remove_container(container, force=True, v=True)
        from_tar(draft / "rootfs.tar")

    path = cache.entry("rootfs", cache.content_key(["export", image_id]), build) / "rootfs.tar"
    return Rootfs(path, cache.file_sha256(path), reference)


def import_into(client: DockerClient, rootfs: Rootfs) -> str:
    """The ID of the root file system as an image of an engine; imported if missing.

    Raises:
        CannotStart: the engine refuses it.
    """
    from docker.errors import APIError, NotFound

    api: Any = client.api
    tag = rootfs.sha256[:12]
    reference = f"{REPOSITORY}:{tag}"
    with contextlib.suppress(NotFound):
        known = api.inspect_image(reference)
        if (known["Config"].get("Labels") or {}).get(LABEL_ROOTFS) == rootfs.sha256:
            return str(known["Id"])
    try:
        api.import_image_from_file(
            str(rootfs.path),
            repository=REPOSITORY,
            tag=tag,
            changes=[f"LABEL {LABEL_ROOTFS}={rootfs.sha256}"],
        )
        return str(api.inspect_image(reference)["Id"])
    except APIError as error:
        raise CannotStart(
            f"the Docker engine refused to import {rootfs.path}: {error.explanation}"
        ) from error
