"""What a host of a lab starts from: its disk, kernel, first root and hypervisor, built on this machine.

It is kept by what is in it: the packages and versions that apt resolves from the machine's own sources, and our own
files. There is no key and no identity in it: those come with each start.

What the disk of a host of a lab has besides its packages, and what it does without.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tarfile
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image import apt as debian_sources
from pytest_vperf.targets.image import debian
from pytest_vperf.targets.image.apt import PrivateApt
from pytest_vperf.targets.image.debian import BASE, Layout
from pytest_vperf.targets.image.ext4 import write_ext4
from pytest_vperf.targets.kernel import guest_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from importlib.abc import Traversable
    from pathlib import Path

    from pytest_vperf.lab.kinds import Kind
    from pytest_vperf.targets.image.apt import Sources

    Say = Callable[[str], None]


#: Changes with the patterns below; our own files are part of the key by their content.
_NAME = "lab host 1"
# What is for reading, what only the packaging needs, and python, which only the packaging's scripts need. And what
# must not be the same on every host that starts from the disk: keys of the SSH server, the machine's identity.
_LEFT_OUT = re.compile(
    r"(dev|proc|sys|run|tmp|media|mnt|srv"
    r"|etc/(apt|machine-id|hostname|resolv\.conf|hosts|\.pwd\.lock)"
    r"|etc/ssh/ssh_host_[^/]*"
    r"|usr/share/(doc|man|locale|info|lintian|bug|bash-completion|X11|python3|doc-base|applications|pixmaps)"
    r"|usr/lib/python3[^/]*|usr/bin/(python3|py3|pydoc)[^/]*"
    r"|var/(tmp|backups)|var/(lib|cache)/apt|var/lib/dbus|var/log/(apt|dpkg\.log|alternatives\.log)"
    r"|var/lib/dpkg/(info|lock[^/]*|triggers|available|[^/]*-old))(/|$)"
)
#: Drivers of a real machine's parts, which none of a lab's has; they are most of a kernel's size.
_DRIVERS = (
    *("gpu", "media", "infiniband", "iio", "isdn", "staging", "hwmon", "leds", "mfd", "mtd", "nfc"),
    *("net/ethernet", "net/wireless", "net/can", "net/usb", "scsi", "usb", "video", "platform"),
    *(
        "bluetooth",
        "firewire",
        "comedi",
        "hid",
        "input",
        "pinctrl",
        "power",
        "regulator",
        "thunderbolt",
    ),
    *("ata", "cpufreq", "edac", "char/tpm", "nvme"),
)
_UNREAD = (
    *(f"/usr/share/{name}/*" for name in ("doc", "man", "locale", "info", "lintian", "bug")),
    *(f"/lib/modules/*/kernel/drivers/{name}/*" for name in _DRIVERS),
    *(f"/lib/modules/*/kernel/{name}/*" for name in ("sound", "net/wireless", "net/bluetooth")),
    # These would make a first root for any machine, which takes a while, and ours is another.
    "/etc/kernel/postinst.d/*",
)
#: Units of systemd that a host does without. Where it is emulated each costs a second or two at the start; and
#: nothing is to wake up while something is measured.
_MASKED = (
    *("timers.target", "cryptsetup.target", "integritysetup.target", "veritysetup.target"),
    *("modprobe@.service", "dev-mqueue.mount", "proc-sys-fs-binfmt_misc.automount"),
    *("sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount"),
    *("sys-fs-fuse-connections.mount", "systemd-ask-password-console.path"),
    *("systemd-binfmt.service", "systemd-firstboot.service", "systemd-machine-id-commit.service"),
    *("systemd-pcrphase.service", "systemd-pcrphase-sysinit.service", "systemd-pstore.service"),
    *("systemd-random-seed.service", "systemd-repart.service", "systemd-sysusers.service"),
    *("systemd-update-utmp.service", "systemd-journal-flush.service", "e2scrub_reap.service"),
    *("systemd-remount-fs.service",),
)


def layout(kind: Kind) -> Layout:
    """How the tree of a kind of host is made."""
    files = {
        "etc/hosts": f"127.0.0.1 localhost lab-{kind.name}\n::1 localhost\n".encode(),
        "etc/hostname": f"lab-{kind.name}\n".encode(),
        "etc/resolv.conf": b"",
        # Empty: systemd draws an identity at each start, without taking it for the first one (machine-id(5)).
        "etc/machine-id": b"",
        # A unit whose file is empty is masked (systemd.unit(5)).
        **{f"etc/systemd/system/{name}": b"" for name in _MASKED},
        **_own_files("common"),
        **_own_files(kind.name),
    }
    folders = {
        **dict.fromkeys(["dev", "proc", "sys", "run", "mnt", "media", "srv"], 0o755),
        **dict.fromkeys(["tmp", "var/tmp"], 0o1777),
    }
    return Layout(_NAME, _LEFT_OUT, _UNREAD, folders, files)


def _own_files(name: str) -> dict[str, bytes]:
    """The files below ``root/NAME``, by their path on the host."""
    top = resources.files(__package__) / "root" / name
    return dict(sorted(_walk(top, ""))) if top.is_dir() else {}


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{path}{each.name}/")
        else:
            yield f"{path}{each.name}", each.read_bytes()


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
    ready = debian.can_build()
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
    debian.build(apt, sources, plan.packages, tree, layout(kind))
    say("making the disk")
    boot = folder / "boot"
    _unpack(tree, boot, ("boot", "lib/modules", "usr/lib/modules"))
    kernel = guest_kernel.from_file(next((boot / "boot").glob("vmlinuz-*")))
    shutil.copyfile(kernel.image, folder / "vmlinuz")
    first_root = guest_kernel.build_root_initramfs(kernel, guest_kernel.VIRTIO)
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
    first_root = guest_kernel.parts(guest_kernel.VIRTIO)
    parts = [how.name, kind.name, str(DISK_SIZE), *first_root]
    parts += [*how.unread, how.left_out.pattern, kind.hypervisor]
    parts += [f"{name}={version}" for name, version in sorted(plan.packages.items())]
    for path, content in how.files.items():
        parts += [path, content]
    return cache.content_key(parts)


def _folder(kind: Kind, plan: Plan) -> Path:
    return cache.root() / "lab" / _key(kind, plan)
