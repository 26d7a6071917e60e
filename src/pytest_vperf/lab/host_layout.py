"""What the disk of a host of a lab has besides its packages, and what it does without."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

from pytest_vperf.targets.debian_build import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.abc import Traversable

    from pytest_vperf.lab.kinds import Kind

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
