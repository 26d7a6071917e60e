"""Another machine as the place of pods: its own QEMU and firmware, our kernel and image."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.pod import firmware as firmwares
from pytest_vperf.targets.pod.place import BY_LIBVIRT, kvm_refusal
from pytest_vperf.targets.pod.qemu import QEMU, version_of
from pytest_vperf.targets.pod.sandbox import (
    FILTER,
    described,
    groups_for,
    no_setpriv,
    root_alone,
)
from pytest_vperf.targets.remote.qemu import Confinement, RemoteStart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import PurePath

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.control_group import Group
    from pytest_vperf.targets.limits import Limits
    from pytest_vperf.targets.pod.command_line import MachineConfig
    from pytest_vperf.targets.pod.process import QemuProcess
    from pytest_vperf.targets.remote.machine import RemoteMachine

_FIND = 'p=$(command -v -- "$1") && echo "$p" && "$p" --version'
_FIRMWARE = 'for f; do [ -f "$f" ] && sha256sum "$f" && exit 0; done; exit 1'
_KVM = "d=/dev/kvm; [ -e $d ] && echo there; [ -r $d ] && [ -w $d ] && echo permitted; ls -d /sys/module/kvm*"
#: Four lines: the user's ID, setpriv, whether QEMU has the filter, and mode and group of the device.
_CONFINED = """
id -u
command -v setpriv || echo
"$1" -sandbox "$2" --version >/dev/null 2>&1 && echo filtered || echo
stat -c '%a %g' /dev/kvm 2>/dev/null || echo
"""


class PodsThere:
    """A machine that has QEMU; see `pytest_vperf.targets.pod.place.Place`.

    Args:
        machine: gives it; called when a pod is first wanted.
        where: the machine, as people name it.
    """

    def __init__(self, machine: Callable[[], RemoteMachine], where: str) -> None:
        self._connect = machine
        self._firmware: dict[str, firmwares.Firmware] = {}
        self._confinements: dict[str, Confinement] = {}
        self.mark = f" ({where})"
        self._where = where

    @property
    def _machine(self) -> RemoteMachine:
        return self._connect()

    @property
    def details(self) -> Mapping[str, str]:
        """What the machine is, and how far away."""
        return self._machine.details

    def qemu(self) -> tuple[str, str]:
        """Path and version of the QEMU there."""
        done = self._machine.ssh.run(["sh", "-c", _FIND, "sh", QEMU], check=False, timeout=60.0)
        path, _, version = done.text.partition("\n")
        if done.returncode or not path.startswith("/"):
            raise Unavailable(
                f"{QEMU} is not installed on {self._where}",
                remedy="apt-get install qemu-system-x86, there",
            )
        return path, version_of(version)

    def sandbox(self, qemu: str) -> str:
        """See `pytest_vperf.targets.pod.place.Place.sandbox`."""
        confined = self._confined(qemu)
        return described(confined.filtered, confined.root)

    def firmware(self, name: str) -> firmwares.Firmware:
        """A firmware that is installed there."""
        if name not in self._firmware:
            paths = firmwares.candidates(name)
            done = self._machine.ssh.run(["sh", "-c", _FIRMWARE, "sh", *paths], check=False)
            sha256, _, path = done.text.strip().partition("  ")
            if done.returncode:
                raise Unavailable(
                    f"firmware {name}: none of {', '.join(paths)} is on {self._where}",
                    remedy=f"apt-get install {firmwares.FILES[name][1]}, there",
                )
            self._firmware[name] = firmwares.Firmware(name, PurePosixPath(path), sha256)
        return self._firmware[name]

    def refusal(self, accelerator: str) -> tuple[str, str] | None:
        """See `pytest_vperf.targets.pod.place.Place.refusal`."""
        if accelerator == "xen":
            return BY_LIBVIRT
        if accelerator == "kvm":
            refused = kvm_refusal("there" in self._kvm, "permitted" in self._kvm)
            if refused is None and self._confined(self.qemu()[0]).kvm is None:
                refused = root_alone()
            return (f"{refused[0]} ({self._where})", refused[1]) if refused else None
        return None

    def identity(self) -> tuple[str, ...]:
        """See `pytest_vperf.targets.pod.place.Place.identity`."""
        return self._machine.boot_id, *self._kvm

    def group(self, run: Run, limits: Limits, name: str) -> Group | None:
        """None: the control groups of another machine are not made from here."""
        if not limits:
            return None
        raise Unavailable(
            f"a pod on {self._where} cannot be held to limits from here",
            remedy="use guests, whose libvirt sets and tells them; or call pytest-vperf there",
            target=name,
        )

    def ready(
        self, qemu: str, config: MachineConfig, run: Run, group: Group | None
    ) -> Callable[[], QemuProcess]:
        """Bring the files there, and the sockets here."""
        if config.card is not None or group is not None:
            raise CannotStart(
                f"a pod on {self._where} has no network and no limits of this machine"
            )
        there = dataclasses.replace(
            config,
            kernel=self.bring(config.kernel, "kernel"),
            initramfs=self.bring(config.initramfs, "initramfs"),
            disk=None if config.disk is None else self.bring(config.disk, "image"),
        )
        return RemoteStart(self._machine, qemu, there, run, self._confined(qemu))

    def bring(self, file: PurePath, what: str) -> PurePosixPath:
        """Send a file there, if it is not there yet."""
        return PurePosixPath(self._machine.sent.keep(Path(file), what))

    def _confined(self, qemu: str) -> Confinement:
        if qemu not in self._confinements:
            words = ["sh", "-c", _CONFINED, "sh", qemu, FILTER]
            said = self._machine.ssh.run(words, timeout=60.0).text.splitlines()
            user, setpriv, filtered, device = (said + [""] * 4)[:4]
            if user == "0" and not setpriv:
                raise no_setpriv()
            groups: tuple[int, ...] | None = ()
            if user == "0" and device:
                mode, group = device.split()
                groups = groups_for(int(mode, 8), int(group))
            self._confinements[qemu] = Confinement(user == "0", bool(filtered), groups)
        return self._confinements[qemu]

    @functools.cached_property
    def _kvm(self) -> tuple[str, ...]:
        done = self._machine.ssh.run(["sh", "-c", _KVM], check=False)
        return tuple(done.text.split())
