"""What a host of a lab starts from: its disk, kernel, first root and hypervisor, built on this machine.

It is kept by what is in it: the packages and versions that apt resolves from the machine's own sources, and our own
files. There is no key and no identity in it: those come with each start.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pytest_vperf.lab.host_layout import layout
from pytest_vperf.machine import cache
from pytest_vperf.targets import debian_build, debian_sources
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.debian_image import BASE
from pytest_vperf.targets.ext4_image import write_ext4
from pytest_vperf.targets.kernel import guest_kernel, root_initramfs
from pytest_vperf.targets.private_apt import PrivateApt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.lab.kinds import Kind
    from pytest_vperf.targets.debian_sources import Sources

    Say = Callable[[str], None]

#: Bytes of the root file system. It is sparse: what is not written takes no room.
DISK_SIZE = 10 << 30
#: Left out where the sources do not have it.
_OPTIONAL = ("usr-is-merged",)


@dataclass(frozen=True)
class HostImage:
    """The files that a host starts from, in one folder.

    Attributes:
        folder: ``disk`` (ext4), ``vmlinuz``, ``initramfs``, and for Xen ``xen``.
        key: equal for equal content.
        kernel: the kernel's release.
    """

    folder: Path
    key: str
    kernel: str

    @property
    def size(self) -> int:
        """Bytes that it takes on the machine's disk."""
        return sum(path.stat().st_blocks * 512 for path in self.folder.iterdir())


@dataclass(frozen=True)
class Plan:
    """What apt made of the wishes: packages with their versions."""

    packages: Mapping[str, str]


def built(kind: Kind) -> HostImage | None:
    """The image of a kind, if it is in the cache and still what the machine's package lists give.

    Raises:
        Unavailable: the machine's package sources cannot be read.
    """
    plan = _planned(kind, debian_sources.configured())
    folder = _folder(kind, plan) if plan is not None else None
    return _read(folder) if folder is not None and folder.is_dir() else None


def build(kind: Kind, say: Say) -> HostImage:
    """The image of a kind; made where it is not in the cache, which takes some minutes.

    Args:
        kind: the kind of host.
        say: is told what is being done.

    Raises:
        Unavailable: it cannot be built here; says what is missing and what mends it.
        CannotStart: the disk cannot be made of the packages.
    """
    from filelock import FileLock

    sources = debian_sources.configured()
    home = cache.root() / "lab"
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / "lock"):
        found = built(kind)
        return found if found is not None else _build(kind, sources, say)


def _build(kind: Kind, sources: Sources, say: Say) -> HostImage:
    ready = debian_build.check()
    if not ready.usable:
        raise Unavailable(ready.why, remedy=ready.remedy)
    # Only who holds the lock is here: what is there was left by a build that was killed.
    work = cache.root() / "lab" / "work"
    for left in (work, *(cache.root() / "lab").glob(".*-*")):
        shutil.rmtree(left, ignore_errors=True)
    work.mkdir()
    try:
        apt = PrivateApt(work, sources.lines, sources.lists)
        say("fetching the package lists")
        apt.update()
        plan = Plan(_resolve(apt, kind, sources))
        key = _key(kind, plan)
        folder = cache.entry(
            "lab", key, lambda draft: _write(apt, sources, kind, plan, key, draft, say)
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)
    file = _plan_file(kind, sources)
    file.with_suffix(".new").write_text(json.dumps(asdict(plan), indent=1, sort_keys=True))
    file.with_suffix(".new").rename(file)
    return _read(folder)


def _resolve(apt: PrivateApt, kind: Kind, sources: Sources) -> dict[str, str]:
    kernels = guest_kernel.GENERIC_PACKAGES
    known = apt.known([*kind.packages, *kernels, *_OPTIONAL])
    lacking = [name for name in kind.packages if name not in known]
    kernel = next((name for name in kernels if name in known), None)
    if lacking or kernel is None:
        names = ", ".join(lacking or kernels)
        raise Unavailable(
            f"the package sources of this machine ({sources.distribution} {sources.codename}) have no {names},"
            f" which a {kind.title} needs"
        )
    return apt.resolve(
        [*BASE, *kind.packages, kernel, *(name for name in _OPTIONAL if name in known)]
    )


def _write(
    apt: PrivateApt,
    sources: Sources,
    kind: Kind,
    plan: Plan,
    key: str,
    folder: Path,
    say: Say,
) -> None:
    say(f"fetching {len(plan.packages)} packages")
    apt.download(plan.packages)
    say("installing them into a tree (mmdebstrap)")
    tree = folder / "tree.tar"
    debian_build.build(apt, sources, plan.packages, tree, layout(kind))
    say("making the disk")
    boot = folder / "boot"
    _unpack(tree, boot, ("boot", "lib/modules", "usr/lib/modules"))
    kernel = guest_kernel.from_file(next((boot / "boot").glob("vmlinuz-*")))
    shutil.copyfile(kernel.image, folder / "vmlinuz")
    first_root = root_initramfs.build_root_initramfs(kernel, root_initramfs.VIRTIO)
    shutil.copyfile(first_root, folder / "initramfs")
    if kind.hypervisor:
        # QEMU's multiboot loader does not unpack.
        (folder / "xen").write_bytes(gzip.decompress(next(boot.glob(kind.hypervisor)).read_bytes()))
    write_ext4(tree, folder / "disk", DISK_SIZE)
    shutil.rmtree(boot)
    tree.unlink()
    (folder / "facts.json").write_text(json.dumps({"key": key, "kernel": kernel.release}))


def _unpack(tar: Path, folder: Path, wanted: tuple[str, ...]) -> None:
    """Take files out of a tar file, links apart."""
    with tarfile.open(tar, "r:") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if member.isreg() and any(path.is_relative_to(top) for top in wanted):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                stream = archive.extractfile(member)
                assert stream is not None
                with target.open("wb") as copy:
                    shutil.copyfileobj(stream, copy)


def _read(folder: Path) -> HostImage:
    facts = json.loads((folder / "facts.json").read_text())
    return HostImage(folder, facts["key"], facts["kernel"])


def _planned(kind: Kind, sources: Sources) -> Plan | None:
    """What apt resolved from these package lists before; ``None`` where it was not asked."""
    try:
        return Plan(**json.loads(_plan_file(kind, sources).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _plan_file(kind: Kind, sources: Sources) -> Path:
    wishes = [*BASE, *kind.packages, *guest_kernel.GENERIC_PACKAGES, *_OPTIONAL]
    key = cache.content_key([layout(kind).name, *wishes, *sources.lines, *sources.releases])
    return cache.root() / "lab" / f"{kind.name}-{key}.json"


def _key(kind: Kind, plan: Plan) -> str:
    how = layout(kind)
    first_root = root_initramfs.parts(root_initramfs.VIRTIO)
    parts = [how.name, kind.name, str(DISK_SIZE), *first_root]
    parts += [*how.unread, how.left_out.pattern, kind.hypervisor]
    parts += [f"{name}={version}" for name, version in sorted(plan.packages.items())]
    for path, content in how.files.items():
        parts += [path, content]
    return cache.content_key(parts)


def _folder(kind: Kind, plan: Plan) -> Path:
    return cache.root() / "lab" / _key(kind, plan)
