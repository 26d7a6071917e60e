"""Files on the libvirt daemon's machine, through libvirt alone: the same for a daemon here and one far away.

What machines are started from (root disks, kernels) is uploaded once and kept by its content. A machine's own disk
is an overlay (qcow2) that is removed as soon as the machine has opened it, so that no end of it, of this process or
of the daemon can leave it behind.

What was found or uploaded once is not asked for again: it is taken to be there. A start that fails has a look; where
a file has gone meanwhile, it says so, and the next start uploads it again.

Parts of libvirt's XML that every kind of machine has, and what it is put together with.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from pytest_vperf.targets.base import CannotStart, TargetError
from pytest_vperf.targets.libvirt import address
from pytest_vperf.targets.libvirt.connection import failed, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_vperf.targets.libvirt.connection import Connection


#: The namespace of our labels in a domain's metadata.
NAMESPACE = "urn:pytest-vperf"


def metadata(labels: Mapping[str, str]) -> ElementTree.Element:
    """The element that says whose machine it is.

    Args:
        labels: of the run; the part of each name after the last dot becomes an attribute.
    """
    element = ElementTree.Element("metadata")
    run = ElementTree.SubElement(element, f"{{{NAMESPACE}}}run")
    for name, value in labels.items():
        run.set(name.rpartition(".")[2], value)
    return element


def labels_of(xml: str) -> Mapping[str, str]:
    """The labels in a machine's description; empty where it is nobody's of ours."""
    try:
        found = described(xml, "a machine").find(f"metadata/{{{NAMESPACE}}}run")
    except CannotStart:
        return {}
    return {} if found is None else dict(found.attrib)


def described(xml: str, target: str) -> ElementTree.Element:
    """What a daemon, perhaps on another machine, says of something.

    Args:
        xml: its text.
        target: of whom it speaks.

    Raises:
        CannotStart: it is no XML.
    """
    try:
        # Entities that grow without end are refused by expat itself (2.4.1 and later).
        return ElementTree.fromstring(xml)  # noqa: S314 - libvirt's own # nosec B314
    except (ElementTree.ParseError, ValueError) as error:  # also of a surrogate
        raise CannotStart(
            f"{target}: what libvirt says of it is no XML: {error}", target=target
        ) from None


def add(
    parent: ElementTree.Element, tag: str, text: str = "", **attributes: str
) -> ElementTree.Element:
    """A new child element."""
    element = ElementTree.SubElement(parent, tag, attributes)
    if text:
        element.text = text
    return element


POOL = "vperf"
#: Readable for the user that QEMU runs as, on daemons that run it as another one.
_SYSTEM_FOLDER = "/var/cache/vperf"
_COMPLETE = ".complete"
_CHUNK = 1 << 20


class Storage:
    """The folder of a daemon's machine in which files for machines are kept: a pool of libvirt's.

    Args:
        connection: to the daemon.
        folder: where; empty for the usual place.

    Raises:
        CannotStart: the daemon cannot have such a folder.
    """

    def __init__(self, connection: Connection, folder: str = "") -> None:
        self._connection = connection
        self._libvirt = connection.libvirt
        self._where = f"libvirt at {connection.shown}"
        if not folder:
            folder = _session_folder() if address.is_session(connection.uri) else _SYSTEM_FOLDER
        self._pool = self._opened(folder)
        # Key of a content → name and path of the file that has it.
        self._known: dict[str, tuple[str, str]] = {}

    def _opened(self, folder: str) -> Any:
        handle, libvirt = self._connection.handle, self._libvirt
        description = ElementTree.Element("pool", type="dir")
        add(description, "name", POOL)
        add(add(description, "target"), "path", folder)
        xml = ElementTree.tostring(description, encoding="unicode")
        try:
            try:
                pool = handle.storagePoolLookupByName(POOL)
            except libvirt.libvirtError:
                try:
                    return handle.storagePoolCreateXML(
                        xml, libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD
                    )
                except libvirt.libvirtError as error:
                    # Two runs look at once and both make it; the one that comes second finds the first's.
                    try:
                        return handle.storagePoolLookupByName(POOL)
                    except libvirt.libvirtError:
                        raise error from None
            if not pool.isActive():
                pool.create()
            pool.refresh(0)
            return pool
        except libvirt.libvirtError as error:
            raise failed(error, f"keep files in {folder}", self._where) from None

    def known(self, key: str) -> str | None:
        """The path of a file that `cached` gave before; ``None`` where it did not, or the file has gone since."""
        known = self._known.get(key)
        return None if known is None else known[1]

    def cached(self, source: Path, key: str) -> str:
        """The path, on the daemon's machine, of a file with the content of ``source``; uploaded if it is not there.

        Args:
            source: a file here; where it is sparse, so is the other.
            key: names its content, e.g. ``root-0123456789abcdef``.

        Raises:
            CannotStart: it cannot be uploaded, such as to a full disk, or cannot be read here.
        """
        if key not in self._known:
            try:
                self._known[key] = self._found(key) or self._uploaded(source, key)
            except self._libvirt.libvirtError as error:
                self._refuse(error, f"take the file {source}")
                raise failed(error, f"take the file {source}", self._where) from None
            except OSError as error:
                raise CannotStart(f"{source} cannot be read: {error.strerror or error}") from error
        return self._known[key][1]

    def _found(self, key: str) -> tuple[str, str] | None:
        names = set(self._pool.listVolumes())
        for name in sorted(names):
            if name.startswith(f"{key}-") and f"{name}{_COMPLETE}" in names:
                return name, str(self._pool.storageVolLookupByName(name).path())
        return None

    def _uploaded(self, source: Path, key: str) -> tuple[str, str]:
        # Under a name of its own until all of it is there: two runs may upload at once, and one be killed.
        name = f"{key}-{secrets.token_hex(4)}"
        volume = self._create(name, source.stat().st_size)
        try:
            self._upload(source, volume)
            self._create(f"{name}{_COMPLETE}", 0)
        except BaseException:
            self._delete(volume)
            raise
        return name, str(volume.path())

    @contextlib.contextmanager
    def relied_on(self) -> Iterator[None]:
        """Of a start from files that are known to be there: where it fails, look whether they are.

        Raises:
            CannotStart: as it does itself; with the files that have gone, which are then no longer known.
        """
        try:
            yield
        except CannotStart as error:
            gone = self._gone()
            if not gone:
                raise
            raise CannotStart(
                f"{error}\n{self._where}: {', '.join(gone)} was uploaded, and has gone since;"
                " the next start uploads it again",
                target=error.target,
            ) from error

    def _gone(self) -> list[str]:
        """The paths of known files that are not there. Nothing is taken to be there after that."""
        known = [*self._known.values()]
        self._known.clear()
        try:
            there = set(self.names())
        except self._libvirt.libvirtError:  # nothing can be said
            return []
        return sorted(path for name, path in known if name not in there)

    def _create(self, name: str, size: int, backing: tuple[str, str] | None = None) -> Any:
        volume = ElementTree.Element("volume")
        add(volume, "name", name)
        add(volume, "capacity", str(size), unit="bytes")
        add(volume, "allocation", "0", unit="bytes")
        target = add(volume, "target")
        add(target, "format", type="qcow2" if backing else "raw")
        add(add(target, "permissions"), "mode", "0600" if backing else "0644")
        if backing:
            store = add(volume, "backingStore")
            add(store, "path", backing[0])
            add(store, "format", type=backing[1])
        return self._pool.createXML(ElementTree.tostring(volume, encoding="unicode"), 0)

    def _upload(self, source: Path, volume: Any) -> None:
        libvirt = self._libvirt
        stream = self._connection.handle.newStream(0)
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            volume.upload(stream, 0, 0, libvirt.VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)
            stream.sparseSendAll(_send, _hole, _skip, descriptor)
            stream.finish()
        except BaseException:
            with contextlib.suppress(libvirt.libvirtError):  # it has ended by itself
                stream.abort()
            raise
        finally:
            os.close(descriptor)

    def overlay(self, name: str, base: str, size: int) -> Volume:
        """A disk of one machine: what it writes is in a file of its own, what it reads in ``base``.

        Args:
            name: of the file.
            base: a path from `cached`, of a raw disk.
            size: bytes that the machine sees.

        Raises:
            CannotStart: it cannot be made.
        """
        with self.relied_on():
            try:
                return Volume(self._create(name, size, (base, "raw")), self)
            except self._libvirt.libvirtError as error:
                self._refuse(error, f"make the disk {name}")
                raise failed(error, f"make the disk {name}", self._where) from None

    def _refuse(self, error: Any, what: str) -> None:
        """Say what a full disk is in words that tell where it is full."""
        said = words(error)
        if "No space left" in said or "cannot allocate" in said.lower():
            raise CannotStart(
                f"{self._where} could not {what}: no space is left in {self._folder()} there: {said}"
            ) from None

    def _folder(self) -> str:
        """Where the files are: a pool that was there before may be elsewhere than we would have put it."""
        try:
            path = described(self._pool.XMLDesc(), "its pool").findtext("target/path")
        except (self._libvirt.libvirtError, TargetError):
            path = None
        return path or f"the pool {POOL}"

    def _delete(self, volume: Any) -> None:
        with contextlib.suppress(self._libvirt.libvirtError):  # gone, or the daemon is
            volume.delete(0)

    def names(self) -> list[str]:
        """The names of all files in the folder."""
        self._pool.refresh(0)
        return sorted(self._pool.listVolumes())

    def remove(self, name: str) -> None:
        """Remove a file by its name; nothing if it is not there."""
        with contextlib.suppress(self._libvirt.libvirtError):  # it is not there
            self._delete(self._pool.storageVolLookupByName(name))


class Volume:
    """One machine's disk."""

    def __init__(self, volume: Any, storage: Storage) -> None:
        self._volume = volume
        self._storage = storage
        self.path = str(volume.path())

    def unlink(self) -> None:
        """Take its name away: it goes when the machine that has it open lets go of it. Safe to repeat."""
        self._storage._delete(self._volume)


def _session_folder() -> str:
    from pytest_vperf.machine import cache

    return str(cache.root() / "libvirt")


# What libvirt asks while it sends a sparse file (libvirt-stream.h, virStreamSparseSendAll).


def _send(_: Any, length: int, descriptor: int) -> bytes:
    return os.read(descriptor, min(length, _CHUNK))


def _hole(_: Any, descriptor: int) -> tuple[bool, int]:
    """Whether data or a hole begins here, and how long it is."""
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    end = os.fstat(descriptor).st_size
    try:
        data = os.lseek(descriptor, here, os.SEEK_DATA)
    except OSError:  # ENXIO: nothing but a hole up to the end (lseek(2))
        data = end
    in_data = data == here and here < end
    border = os.lseek(descriptor, here, os.SEEK_HOLE) if in_data else data
    os.lseek(descriptor, here, os.SEEK_SET)
    return in_data, border - here


def _skip(_: Any, length: int, descriptor: int) -> int:
    os.lseek(descriptor, length, os.SEEK_CUR)
    return 0
