"""Pods on another machine: its own QEMU and firmware, our kernel and image.

QEMU's three channels are Unix sockets that ``sshd`` listens on there and forwards here. They, and a shell that waits
for the word to start QEMU, exist before the start is timed, so that it includes no login; QEMU connects to the
sockets as soon as it is executed, so nothing is polled. The machine's output is dated on arrival here.

A QEMU started by root there is confined as here (`pytest_vperf.targets.pod.sandbox`): the shell finds it a user of
its own and opens its files. Its working directory is the folder with its sockets, so that it needs no access to the
path. The shell stays beside QEMU and waits for its input to close: QEMU ends however this process ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_vperf.machine import ownership
from pytest_vperf.machine.ending import end_by_input
from pytest_vperf.targets.base import CannotConnect, CannotStart, Unavailable, Usage
from pytest_vperf.targets.pod import QEMU
from pytest_vperf.targets.pod import place as firmwares
from pytest_vperf.targets.pod.place import BY_LIBVIRT, kvm_refusal
from pytest_vperf.targets.pod.qemu import Channels, command_line, version_of
from pytest_vperf.targets.pod.sandbox import (
    FILTER,
    described,
    groups_for,
    in_groups,
    no_setpriv,
    root_alone,
)
from pytest_vperf.targets.process import ready
from pytest_vperf.targets.remote.connection import remote_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import PurePath

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.control_group import Group
    from pytest_vperf.targets.limits import Limits
    from pytest_vperf.targets.pod.config import MachineConfig
    from pytest_vperf.targets.pod.qemu import QemuProcess
    from pytest_vperf.targets.pod.qmp import Qmp
    from pytest_vperf.targets.remote.machine import RemoteMachine


_CHANNELS = ("qmp", "console", "agent")
#: Seconds for the shell there to get ready, and for QEMU to connect to its channels.
_ANSWERS = 60.0
#: A background job's standard input is /dev/null (POSIX, "Asynchronous Lists"), hence descriptor 3. Arguments: the
#: folder; user IDs to take a free one from, or nothing; setpriv's option for groups; kernel, initramfs and image,
#: which become descriptors 4 to 6; three disks or nothing, 7 to 9, the last descriptors that a POSIX shell can open;
#: and the command. Only root can write to the folder.
_GUARD = """
folder=$1 users=$2 groups=$3 kernel=$4 initramfs=$5 image=$6 one=$7 two=$8 three=$9; shift 9
trap 'rm -rf -- "$folder"' EXIT
exec 3<&0 </dev/null
cd "$folder" || exit 1
if [ "$users" ]; then
  user=
  for each in $users; do
    getent passwd "$each" >/dev/null && continue
    [ -z "$(find /proc -maxdepth 1 -user "$each" 2>/dev/null)" ] || continue
    setpriv --reuid="$each" --regid="$each" --clear-groups true && user=$each && break
  done
  [ "$user" ] || { echo "none of the user IDs $users is free for QEMU" >&2; exit 1; }
  chgrp "$user" . && chmod 710 . && chown "$user" qmp console agent || exit 1
  chmod o+r -- "$kernel" "$initramfs" "$image" && exec 4<"$kernel" 5<"$initramfs" 6<"$image" || exit 1
  [ ! "$one" ] || exec 7<>"$one"
  [ ! "$two" ] || exec 8<>"$two"
  [ ! "$three" ] || exec 9<>"$three"
  set -- setpriv --reuid="$user" --regid="$user" "$groups" --no-new-privs -- "$@"
fi
ulimit -c 0
ulimit -f 131072
echo ready
read -r word <&3 || exit 1
"$@" >&2 3<&- & qemu=$!
echo $qemu >"$folder/pid"
{ cat <&3; kill -9 $qemu; } >/dev/null 2>&1 & watch=$!
exec 3<&-
wait $qemu; status=$?
kill $watch 2>/dev/null
exit $status
"""
_LINK = 'ln -- "$1" "$2" 2>/dev/null || cp -- "$1" "$2" && chmod o+r -- "$2"'
#: Field 2, the name, may have blanks, parentheses and ends of lines; 14 and 15 are the ticks in user and kernel mode.
_USED = re.compile(
    r"\d+ \(.*\) \S(?: -?\d+){10} (\d{1,15}) (\d{1,15})(?: -?\d+)+\n"
    r"\d+ (\d{1,15})(?: \d+)+\n([1-9]\d{0,5})\n([1-9]\d{0,8})\n",
    re.DOTALL | re.ASCII,
)
_USAGE = 'cat "/proc/$1/stat" "/proc/$1/statm" && getconf CLK_TCK && getconf PAGESIZE'
#: The descriptors for disks.
_DISKS = (7, 8, 9)
#: How many user IDs of each range are tried.
_TRIED = 3


@dataclass(frozen=True)
class Confinement:
    """How QEMU can be confined on a machine.

    Attributes:
        root: whether root starts it.
        filtered: whether it has the system call filter.
        kvm: the groups that may use ``/dev/kvm``; ``None`` if only root may.
    """

    root: bool
    filtered: bool
    kvm: tuple[int, ...] | None = ()

    def options(self, config: MachineConfig) -> list[str]:
        """Further command-line options for QEMU."""
        sets = range(len(config.disks)) if self.root else ()
        given = (word for each in sets for word in ("-add-fd", f"fd={_DISKS[each]},set={each}"))
        return [*(("-sandbox", FILTER) if self.filtered else ()), *given]

    def opened(self, config: MachineConfig) -> MachineConfig:
        """The machine's configuration, with its files as QEMU opens them.

        Raises:
            CannotStart: it has too many disks.
        """
        if not self.root:
            return config
        if len(config.disks) > len(_DISKS):
            raise CannotStart(f"a pod on another machine has at most {len(_DISKS)} disks")
        kernel, initramfs, image = (PurePosixPath(f"/proc/self/fd/{each}") for each in (4, 5, 6))
        disk = None if config.disk is None else image
        disks = tuple((name, f"/dev/fdset/{each}") for each, (name, _) in enumerate(config.disks))
        return dataclasses.replace(
            config, kernel=kernel, initramfs=initramfs, disk=disk, disks=disks
        )

    def words(self, config: MachineConfig) -> list[str]:
        """The shell's arguments between the folder and QEMU's command line."""
        tried = [secrets.choice(each) for each in ownership.RANGES for _ in range(_TRIED)]
        groups = self.kvm or () if config.accelerator == "kvm" else ()
        image = config.disk or config.initramfs  # unused without a disk
        files = map(str, (config.kernel, config.initramfs, image))
        disks = [device for _, device in config.disks[: len(_DISKS)]]
        absent = [""] * (len(_DISKS) - len(disks))
        own = " ".join(map(str, tried)) if self.root else ""
        return [own, in_groups(groups), *files, *disks, *absent]


class RemoteStart:
    """A prepared start: the sockets exist on both sides, and the shell waits. Calling it starts QEMU.

    Args:
        machine: the machine to start it on.
        qemu: the program there.
        config: the pod's machine; its files are on the other machine.
        run: owns the process.
        confined: how QEMU can be confined there.

    Raises:
        CannotConnect: sockets cannot be forwarded, or the machine is gone.
        CannotStart: its shell does not answer.
        TargetError: their folder cannot be created.
    """

    def __init__(
        self,
        machine: RemoteMachine,
        qemu: str,
        config: MachineConfig,
        run: Run,
        confined: Confinement,
    ) -> None:
        self.machine = machine
        self.root = confined.root
        self._images = itertools.count(1)
        self.folder = run.subfolder("pod")
        self.there = machine.new_folder("pod")
        self._line = machine.lines.take()
        self._listeners: list[socket.socket] = []
        self._brought: list[tuple[str, Path]] = []
        self._log = (self.folder / "qemu.log").open("w+b")
        self._process: subprocess.Popen[bytes] | None = None
        paths = [f"{self.there}/{name}" for name in _CHANNELS]
        try:
            for name, there in zip(_CHANNELS, paths, strict=True):
                here = self.folder / name
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._listeners.append(listener)
                listener.bind(str(here))
                listener.listen(1)
                self._line.listen(there, here)
                self._brought.append((there, here))
            channels = Channels(*(f"path={name}" for name in _CHANNELS))
            opened = confined.opened(config)
            argv = command_line(qemu, opened, channels, name=f"vperf-{run.id}")
            words = [self.there, *confined.words(config), *argv, *confined.options(config)]
            line = remote_line(["sh", "-c", _GUARD, "sh", *words], {}, None, "")
            self._process = subprocess.Popen(
                self._line.words(line),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=run.environment,
                start_new_session=True,
            )
            self._await_shell()
        except BaseException:
            self.end()
            raise

    def __call__(self) -> RemoteQemu:
        """Start QEMU.

        Raises:
            CannotStart: QEMU ended, with its output, or did not connect to its channels.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        accepted: dict[socket.socket, socket.socket] = {}
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended, as `_accept` will notice
                process.stdin.write(b"go\n")
                process.stdin.flush()
            self._accept(process, accepted)
        except BaseException:
            for connected in accepted.values():
                connected.close()
            self.end()
            raise
        return RemoteQemu(self, process, [accepted[each] for each in self._listeners])

    def _await_shell(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        readable, _ = ready([stream], [], _ANSWERS)
        if not readable or os.read(stream.fileno(), 100) != b"ready\n":
            raise CannotStart(
                f"the shell on {self.machine.address.where} that starts QEMU does not answer: {self.said()}"
            )

    def _accept(
        self, process: subprocess.Popen[bytes], accepted: dict[socket.socket, socket.socket]
    ) -> None:
        deadline = time.monotonic() + _ANSWERS
        ended = os.pidfd_open(process.pid)
        try:
            while len(accepted) < len(self._listeners):
                waiting = [each for each in self._listeners if each not in accepted]
                watched: list[socket.socket | int] = [*waiting, ended]
                left = max(0.0, deadline - time.monotonic())
                found, _ = ready(watched, [], left)
                for listener in waiting:
                    if listener in found:
                        accepted[listener] = listener.accept()[0]
                if not found or ended in found:
                    what = f"ended with status {process.poll()}" if found else "said nothing"
                    words = self.said()
                    raise CannotStart(
                        f"QEMU on {self.machine.address.where} {what}"
                        + (f": {words}" if words else "")
                    )
        finally:
            os.close(ended)

    def hand_over(self, file: PurePath) -> PurePath:
        """Link a file of that machine into QEMU's working directory if QEMU is confined and cannot reach its path."""
        if not self.root:
            return file
        name = f"image{next(self._images)}"
        self.machine.ssh.run(["sh", "-c", _LINK, "sh", str(file), f"{self.there}/{name}"])
        return PurePosixPath(name)

    def said(self) -> str:
        """The end of the output of QEMU, or of ``ssh``."""
        self._log.flush()
        self._log.seek(0)
        return self._log.read()[-600:].decode("utf-8", "replace").strip()

    def end(self) -> None:
        """End QEMU by closing the input of the shell beside it, or by ending ``ssh`` if that has no effect."""
        process, self._process = self._process, None
        if process is not None:
            end_by_input(process, 20.0)
        for listener in self._listeners:
            listener.close()
        while self._brought:
            self._line.unlisten(*self._brought.pop())
        if not self._log.closed:
            self._log.close()
            self.machine.lines.give(self._line)
        shutil.rmtree(self.folder, ignore_errors=True)


class RemoteQemu:
    """A QEMU on another machine; see `pytest_vperf.targets.pod.qemu.QemuProcess`.

    Args:
        start: the start that it came from.
        process: the ``ssh`` of the shell beside it.
        channels: the connected sockets: QMP, console, agent.
    """

    def __init__(
        self, start: RemoteStart, process: subprocess.Popen[bytes], channels: list[socket.socket]
    ) -> None:
        self._start = start
        self._process = process
        self._pid = 0
        self.qmp, self.console, self.agent = channels

    @property
    def pid(self) -> int:
        """Its process ID, there."""
        if not self._pid:
            try:
                self._pid = int(self._start.machine.read(f"{self._start.there}/pid"))
            except (OSError, ValueError):
                raise CannotConnect("QEMU is gone") from None
        return self._pid

    def poll(self) -> int | None:
        """Its status, as reported by the shell beside it: ``128 + N`` after signal N."""
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        """Its status, once it has ended."""
        return self._process.wait(timeout)

    def hand_over(self, qmp: Qmp, file: PurePath) -> PurePath:
        """Let it open a file; see `pytest_vperf.targets.pod.qemu.QemuProcess`."""
        return self._start.hand_over(file)

    def said(self) -> str:
        """The end of its output, or of that of ``ssh``."""
        return self._start.said()

    def usage(self) -> Usage:
        """CPU time and resident memory, from /proc there (proc(5), ``stat`` and ``statm``)."""
        done = self._start.machine.ssh.run(["sh", "-c", _USAGE, "sh", str(self.pid)], check=False)
        found = _USED.fullmatch(done.text)
        if done.returncode or found is None:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise CannotConnect(f"QEMU is gone, or its usage cannot be read there: {said}")
        user, system, pages, ticks, page = map(int, found.groups())
        return Usage((user + system) / ticks, pages * page)

    def end(self) -> None:
        """End it. Safe to repeat."""
        self._start.end()


_FIND = 'p=$(command -v -- "$1") && echo "$p" && "$p" --version'
_FIRMWARE = 'for f; do [ -f "$f" ] && sha256sum "$f" && exit 0; done; exit 1'
_KVM = "d=/dev/kvm; [ -e $d ] && echo there; [ -r $d ] && [ -w $d ] && echo permitted; ls -d /sys/module/kvm*"
#: Four lines: the user ID, setpriv, whether QEMU has the filter, and mode and group of the device.
_CONFINED = """
id -u
command -v setpriv || echo
"$1" -sandbox "$2" --version >/dev/null 2>&1 && echo filtered || echo
stat -c '%a %g' /dev/kvm 2>/dev/null || echo
"""


class PodsThere:
    """Another machine with QEMU; see `pytest_vperf.targets.pod.place.Place`.

    Args:
        machine: returns the machine; called when a pod is first needed.
        where: the machine's name in messages.
    """

    def __init__(self, machine: Callable[[], RemoteMachine], where: str, mark: str = "") -> None:
        self._connect = machine
        self._firmware: dict[str, firmwares.Firmware] = {}
        self._confinements: dict[str, Confinement] = {}
        self.mark = f" ({where}){mark}"
        self._where = where

    @property
    def _machine(self) -> RemoteMachine:
        return self._connect()

    @property
    def details(self) -> Mapping[str, str]:
        """The machine's fingerprint, address and round-trip time."""
        return self._machine.details

    def qemu(self) -> tuple[str, str]:
        """The path and version of the QEMU there."""
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
        """A firmware installed there."""
        if name not in self._firmware:
            paths = firmwares.firmware_candidates(name)
            done = self._machine.ssh.run(["sh", "-c", _FIRMWARE, "sh", *paths], check=False)
            sha256, _, path = done.text.strip().partition("  ")
            if done.returncode:
                raise Unavailable(
                    f"firmware {name}: none of {', '.join(paths)} is on {self._where}",
                    remedy=f"apt-get install {firmwares.FIRMWARE_FILES[name][1]}, there",
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
        """``None``: control groups are not created on another machine."""
        if not limits:
            return None
        raise Unavailable(
            f"a pod on {self._where} cannot be held to limits from here",
            remedy="use guests, whose libvirt sets and reports them; or run pytest there",
            target=name,
        )

    def ready(
        self, qemu: str, config: MachineConfig, run: Run, group: Group | None
    ) -> Callable[[], QemuProcess]:
        """Send the files there, and forward the sockets here."""
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
        """Send a file there unless it already exists."""
        return PurePosixPath(self._machine.sent.keep(Path(file), what))

    def _confined(self, qemu: str) -> Confinement:
        if qemu not in self._confinements:
            words = ["sh", "-c", _CONFINED, "sh", qemu, FILTER]
            said = self._machine.ssh.run(words, timeout=60.0).text.splitlines()
            user, setpriv, filtered, device = (said + [""] * 4)[:4]
            if device and not re.fullmatch("[0-7]{1,5} [0-9]{1,10}", device):
                raise CannotConnect(f"what /dev/kvm is there cannot be read: {device[:60]!r}")
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
