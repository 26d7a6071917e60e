"""Files on the libvirt daemon's machine, through libvirt alone, so local and remote daemons are treated alike.

What machines are started from (root disks, kernels) is uploaded once and kept under its content key. A machine's own
disk is an overlay (qcow2), unlinked as soon as the machine has opened it, so that no crash of the machine, this
process or the daemon can leave it behind.

A file found or uploaded once is assumed to stay. A start that fails checks; if a file has gone, the error says so,
and the next start uploads it again.

Also the parts of libvirt's XML that every kind of machine shares.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple
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
    """The XML element with the run's labels, which tell whose machine it is.

    Args:
        labels: the run's; the part of each name after the last dot becomes an attribute.
    """
    element = ElementTree.Element("metadata")
    run = ElementTree.SubElement(element, f"{{{NAMESPACE}}}run")
    for name, value in labels.items():
        run.set(name.rpartition(".")[2], value)
    return element


def labels_of(xml: str) -> Mapping[str, str]:
    """The labels in a machine's XML; empty if the machine is not ours."""
    try:
        found = described(xml, "a machine").find(f"metadata/{{{NAMESPACE}}}run")
    except CannotStart:
        return {}
    return {} if found is None else dict(found.attrib)


def described(xml: str, target: str) -> ElementTree.Element:
    """Parse a description from a daemon, perhaps on another machine.

    Args:
        xml: its text.
        target: what it describes, for messages.

    Raises:
        CannotStart: it is not well-formed XML.
    """
    try:
        return ElementTree.fromstring(xml)  # nosec B314 # expat (2.4.1 and later) limits what entities grow to
    except (ElementTree.ParseError, ValueError) as error:  # also of a surrogate
        raise CannotStart(
            f"{target}: libvirt's description of it is not XML: {error}", target=target
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
#: Readable by QEMU's user, who may not be ours on a system daemon.
_SYSTEM_FOLDER = "/var/cache/vperf"
_COMPLETE = ".complete"
_CHUNK = 1 << 20


class RootDisk(NamedTuple):
    """A disk on the daemon's machine, whose overlays are the root disks of machines.

    Attributes:
        path: the file's.
        size: in bytes, as a machine sees it.
        format: ``raw`` or ``qcow2``.
    """

    path: str
    size: int
    format: str = "raw"


class Storage:
    """A folder on the daemon's machine, as a libvirt storage pool, for the files of its machines.

    Args:
        connection: to the daemon.
        folder: its path; empty for the default.

    Raises:
        CannotStart: the daemon cannot open or create the folder.
    """

    def __init__(self, connection: Connection, folder: str = "") -> None:
        self._connection = connection
        self._libvirt = connection.libvirt
        self._where = f"libvirt at {connection.shown}"
        if not folder:
            folder = _session_folder() if address.is_session(connection.uri) else _SYSTEM_FOLDER
        self._pool = self._opened(folder)
        # Content key → name and path of the file.
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
                    # Two runs may both find no pool and create it; the second then uses the first's.
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
        """The path that `cached` returned for this key; ``None`` if it has not, or the file was found gone."""
        known = self._known.get(key)
        return None if known is None else known[1]

    def cached(self, source: Path, key: str, sha256: str = "") -> str:
        """The path of a copy of ``source`` on the daemon's machine; uploaded if missing.

        Args:
            source: a local file; holes stay holes.
            key: its content key, e.g. ``root-0123456789abcdef``.
            sha256: of what was checked of a file that others may write to; empty: it is ours.

        Raises:
            CannotStart: the upload failed, e.g. on a full disk, or the file cannot be read here, or has changed.
        """
        if key not in self._known:
            try:
                self._known[key] = self._found(key) or self._uploaded(source, key, sha256)
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

    def _uploaded(self, source: Path, key: str, sha256: str) -> tuple[str, str]:
        # Complete only once its marker exists: two runs may upload at once, and one may be killed halfway.
        name = f"{key}-{secrets.token_hex(4)}"
        volume = self._create(name, source.stat().st_size)
        try:
            found = self._upload(source, volume, hashlib.sha256() if sha256 else None)
            if found != sha256:
                raise CannotStart(f"{source} was changed while it was read")
            self._create(f"{name}{_COMPLETE}", 0)
        except BaseException:
            self._delete(volume)
            raise
        return name, str(volume.path())

    @contextlib.contextmanager
    def relied_on(self) -> Iterator[None]:
        """Run a start that relies on uploaded files; if it fails, check that they still exist.

        Raises:
            CannotStart: the start's own error; names the files that have gone, which are then forgotten.
        """
        try:
            yield
        except CannotStart as error:
            gone = self._gone()
            if not gone:
                raise
            raise CannotStart(
                f"{error}\n{self._where}: {', '.join(gone)} was uploaded but has since gone;"
                " the next start uploads it again",
                target=error.target,
            ) from error

    def _gone(self) -> list[str]:
        """The paths of known files that no longer exist. Forgets all known files."""
        known = [*self._known.values()]
        self._known.clear()
        try:
            there = set(self.names())
        except self._libvirt.libvirtError:  # cannot tell
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

    def _upload(self, source: Path, volume: Any, digest: Any) -> str:
        """Send a file; the SHA-256 of what was sent, in hexadecimal, if ``digest`` is no ``None``."""

        def send(stream: Any, length: int, descriptor: int) -> bytes:
            data = _send(stream, length, descriptor)
            if digest is not None:
                digest.update(data)
            return data

        def skip(stream: Any, length: int, descriptor: int) -> int:
            for begin in range(0, length if digest is not None else 0, _CHUNK):
                digest.update(bytes(min(_CHUNK, length - begin)))
            return _skip(stream, length, descriptor)

        libvirt = self._libvirt
        stream = self._connection.handle.newStream(0)
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            volume.upload(stream, 0, 0, libvirt.VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)
            stream.sparseSendAll(send, _hole, skip, descriptor)
            stream.finish()
            return digest.hexdigest() if digest is not None else ""
        except BaseException:
            with contextlib.suppress(libvirt.libvirtError):  # it has already ended
                stream.abort()
            raise
        finally:
            os.close(descriptor)

    def overlay(self, name: str, base: RootDisk) -> Volume:
        """An overlay on ``base`` as one machine's disk.

        Args:
            name: the file's.
            base: a disk from `cached`.

        Raises:
            CannotStart: it cannot be created.
        """
        with self.relied_on():
            try:
                backing = base.path, base.format
                return Volume(self._create(name, base.size, backing), self)
            except self._libvirt.libvirtError as error:
                self._refuse(error, f"make the disk {name}")
                raise failed(error, f"make the disk {name}", self._where) from None

    def _refuse(self, error: Any, what: str) -> None:
        """Raise `CannotStart` with the folder if the disk is full; otherwise return."""
        said = words(error)
        if "No space left" in said or "cannot allocate" in said.lower():
            raise CannotStart(
                f"{self._where} could not {what}: no space is left in {self._folder()} there: {said}"
            ) from None

    def _folder(self) -> str:
        """The pool's folder: an existing pool may be elsewhere than we would have put it."""
        try:
            path = described(self._pool.XMLDesc(), "its pool").findtext("target/path")
        except (self._libvirt.libvirtError, TargetError):
            path = None
        return path or f"the pool {POOL}"

    def _delete(self, volume: Any) -> None:
        with contextlib.suppress(self._libvirt.libvirtError):  # the file or the daemon is gone
            volume.delete(0)

    def names(self) -> list[str]:
        """The names of all files in the folder."""
        self._pool.refresh(0)
        return sorted(self._pool.listVolumes())

    def remove(self, name: str) -> None:
        """Remove a file by its name, if it exists."""
        with contextlib.suppress(self._libvirt.libvirtError):  # no such file
            self._delete(self._pool.storageVolLookupByName(name))


class Volume:
    """One machine's disk."""

    def __init__(self, volume: Any, storage: Storage) -> None:
        self._volume = volume
        self._storage = storage
        self.path = str(volume.path())

    def unlink(self) -> None:
        """Unlink the file; its space is freed when the machine closes it. Safe to repeat."""
        self._storage._delete(self._volume)


def _session_folder() -> str:
    from pytest_vperf.machine import cache

    return str(cache.root() / "libvirt")


# Callbacks with which libvirt reads a sparse file (libvirt-stream.h, virStreamSparseSendAll).


def _send(_: Any, length: int, descriptor: int) -> bytes:
    return os.read(descriptor, min(length, _CHUNK))


def _hole(_: Any, descriptor: int) -> tuple[bool, int]:
    """Whether data begins at the current offset (else a hole), and its length in bytes."""
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    end = os.fstat(descriptor).st_size
    try:
        data = os.lseek(descriptor, here, os.SEEK_DATA)
    except OSError:  # ENXIO: only a hole up to the end (lseek(2))
        data = end
    in_data = data == here and here < end
    border = os.lseek(descriptor, here, os.SEEK_HOLE) if in_data else data
    os.lseek(descriptor, here, os.SEEK_SET)
    return in_data, border - here


def _skip(_: Any, length: int, descriptor: int) -> int:
    os.lseek(descriptor, length, os.SEEK_CUR)
    return 0
