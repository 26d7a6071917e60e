"""Starts a host of a lab: launches its QEMU, and waits until it reports ready and libvirt answers.

Whether a host of a lab is emulated, or has the machine's own virtualisation.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.lab import command_line as cl
from pytest_vperf.lab import keys, state
from pytest_vperf.machine import cache, runs
from pytest_vperf.machine.ending import start_bound
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, TimedOut
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.pod import assets, sandbox
from pytest_vperf.targets.pod.probe import probe
from pytest_vperf.targets.pod.qmp import QmpError
from pytest_vperf.targets.process import Finished, OutOfTime, ready, run_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.lab.image import HostImage
    from pytest_vperf.lab.kinds import Kind
    from pytest_vperf.lab.state import LabHost


_NESTED = tuple(Path(f"/sys/module/kvm_{maker}/parameters/nested") for maker in ("intel", "amd"))
#: Characters of a reason that fits into a line about something else.
_BRIEF = 100
#: Seconds for which a KVM that did not work is not tried again: it may have been the moment, but a trial waits for
#: whoever measures on this machine.
_REMEMBERED = 3600.0


def choose_accelerator(kind: Kind, run: Run | None, say: Callable[[str], None]) -> tuple[str, str]:
    """The accelerator for a host of this kind on this machine, and why it is not KVM where it is not.

    Whether KVM works is found by starting a pod with it.

    Args:
        kind: of host.
        run: owns the pod; a short one of its own where there is none.
        say: is told, since it waits for a measurement in progress.
    """
    if kind.name == "kvm" and not _nests():
        return "tcg", "this machine has no KVM that its guests can use in turn (nested)"
    known = _refusal()
    if known.is_file() and time.time() - known.stat().st_mtime < _REMEMBERED:
        return "tcg", known.read_text()
    say("trying whether KVM works here")
    why = _try(run)
    if not why:
        return "kvm", ""
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(why)
    return "tcg", why


def _try(run: Run | None) -> str:
    """Why KVM does not work; empty where it does."""
    if run is None:
        with Run.begin() as own:
            return _try(own)
    try:
        answer = probe("kvm", lambda: assets.prepare(default_rootfs()), run)
    except TargetError as error:
        return f"KVM could not be tried: {' '.join(str(error).split())}"
    if answer.usable:
        return ""
    # A machine that died may have said a lot.
    brief = len(answer.why) <= _BRIEF
    return answer.why if brief else "KVM does not work here; `vperf doctor kvm` says more"


def _refusal() -> Path:
    """The file that remembers that KVM did not work, for this boot and these kernel modules."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    modules = sorted(module.name for module in Path("/sys/module").glob("kvm*"))
    device = Path("/dev/kvm")
    mode = oct(device.stat().st_mode) if device.exists() else "none"
    return cache.root() / "probe" / f"{cache.content_key(['lab', boot_id, mode, *modules])}.no"


def _nests() -> bool:
    """Whether a guest of this machine may itself have guests under KVM.

    Source: Linux kernel documentation, virt/kvm/x86/running-nested-guests.
    """
    for file in _NESTED:
        try:
            return file.read_text().strip() in ("Y", "1")
        except OSError:
            continue
    return False


#: Another process may take a free port before QEMU does; it then says so, and the next one is tried.
_PORTS = 10
_PORT_TAKEN = "Could not set up host forwarding rule"
_LOG = "qemu.log"
_LAST_LINES = 12
#: Asks libvirt in a process of its own, which can be ended: a call of libvirt that waits cannot.
_ASK = """
import sys
try:
    import libvirt
except ImportError:
    sys.exit(77)
libvirt.registerErrorHandler(lambda *_: None, None)
try:
    connection = libvirt.open(sys.argv[1])
    connection.getVersion()
    print(connection.getCapabilities())
except libvirt.libvirtError as error:
    sys.exit(str(error))
"""
_NO_LIBVIRT = 77


def launch(
    folder: Path, kind: Kind, image: HostImage, qemu: str, machine: cl.Machine, run: Run | None
) -> tuple[int, cl.Machine]:
    """Start QEMU on a free port; its process ID, and the machine with the port.

    Args:
        folder: the host's own, empty, private to the user.
        kind: of host.
        image: what it starts from.
        qemu: the program.
        machine: its port is not looked at.
        run: owns the process; ``None``: it stays when this process ends.

    Raises:
        CannotStart: QEMU refused its command line or ended.
        Unavailable: OpenSSH is not installed.
    """
    keys.make(folder)
    for name, file in cl.links(kind, image.folder).items():
        (folder / name).symlink_to(file)
    for _ in range(_PORTS):
        tried = cl.Machine(kind, machine.accelerator, machine.memory, machine.vcpus, _free_port())
        keys.write_access(folder, f"lab-{kind.name}", tried.port)
        # It stays root's, whose folder it has, but it starts nothing and becomes nobody else.
        filtered = ("-sandbox", sandbox.FILTER) if sandbox.has_filter(qemu) else ()
        process = _spawn([*cl.command_line(qemu, tried), *filtered], folder, run)
        try:
            if _listens(process, folder):
                _check_accelerator(folder, machine.accelerator)
                return process.pid, tried
        except BaseException:
            _kill(process)
            raise
        said = _text(folder / _LOG)
        if _PORT_TAKEN not in said:
            raise CannotStart(f"lab {kind.name}: QEMU ended: {said.strip()[-400:] or 'silently'}")
    raise CannotStart(f"lab {kind.name}: {_PORTS} free ports were taken before QEMU could")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spawn(argv: list[str], folder: Path, run: Run | None) -> subprocess.Popen[bytes]:
    environment = dict(run.environment if run is not None else os.environ)
    if run is None:  # also where it is called from something that a run started
        for name in (runs.MARK, runs.MARK_FOLDER):
            environment.pop(name, None)
    # TMPDIR is for the file that -snapshot writes to.
    environment |= {state.MARK: str(folder), "TMPDIR": str(folder)}
    with (folder / _LOG).open("wb") as log:
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": log,
            "stderr": log,
            "env": environment,
            "cwd": folder,
            "start_new_session": True,
        }
        if run is None:  # it stays
            return subprocess.Popen(argv, **options)
        return start_bound(argv, signal.SIGKILL, **options)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _listens(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Wait until QEMU has made its sockets, which it does after it has taken its port; false if it ended."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        with contextlib.suppress(OSError, QmpError), state.control(folder):
            return True
        time.sleep(0.05)
    raise CannotStart("QEMU did not answer on its control socket within 60 s")


def _check_accelerator(folder: Path, wanted: str) -> None:
    """Ask QEMU which accelerator it really uses."""
    with state.control(folder) as qmp:
        actual = "kvm" if qmp.field("query-kvm", "enabled", bool) else "tcg"
    if actual != wanted:
        raise CannotStart(f"QEMU runs {actual}, not {wanted}")


def await_ready(folder: Path, pid: int, kind: Kind, deadline: float) -> None:
    """Wait until the host says that it is ready.

    Raises:
        CannotStart: it ended, or something in it did not start; with the last lines of its console.
        TimedOut: the deadline, on time.monotonic()'s clock, passed.
    """
    said = b""
    with state.connect(folder, cl.READY) as port:
        while b"\n" not in said:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"lab {kind.name} was not ready in time{_last_words(folder)}")
            readable, _ = ready([port], [], min(left, 1.0))
            chunk = port.recv(4096) if readable else None
            said += chunk or b""
            if chunk == b"" or not state.processes(folder, pid):
                raise CannotStart(f"lab {kind.name} ended while it started{_last_words(folder)}")
    line = said.decode("utf-8", "replace").splitlines()[0]
    if not line.startswith("ready"):
        raise CannotStart(f"lab {kind.name}: {line}{_last_words(folder)}")


#: How often a host's libvirt is asked, and the seconds between.
_TRIES, _AGAIN = 3, 3.0
#: The words of ssh, and of the C library, where the host is too busy to answer: it is asked until the deadline.
_BUSY = re.compile(rb"timed out|reset by peer|closed by remote host", re.IGNORECASE)


def await_libvirt(host: LabHost, kind: Kind, deadline: float) -> None:
    """Connect with the host's libvirt, and let it find out what it can do, which it does once.

    Raises:
        CannotConnect: it does not answer, or the host's key is not the right one.
        CannotStart: it has no virtual machines of this kind.
        TimedOut: the deadline passed.
    """
    environment = dict(os.environ)
    tries = 0
    while True:
        done = _ask_libvirt(host, kind, deadline, environment)
        # A daemon that has just come up may hang up on the first that call.
        tries += not _BUSY.search(done.stderr)
        if not done.returncode or tries == _TRIES or time.monotonic() + _AGAIN > deadline:
            break
        time.sleep(_AGAIN)
    if done.returncode:
        words = " ".join(done.stderr.decode("utf-8", "replace").split())
        raise CannotConnect(f"lab {kind.name} is up, but its libvirt does not answer: {words}")
    found = set(re.findall(r"<domain type='(\w+)'", done.stdout.decode("utf-8", "replace")))
    wanted = "kvm" if kind.name == "kvm" else "xen"
    if wanted not in found:
        kinds = ", ".join(sorted(found)) or "none"
        raise CannotStart(
            f"lab {kind.name} is up, but its libvirt has no {wanted} domains, only: {kinds}"
        )


def _ask_libvirt(
    host: LabHost, kind: Kind, deadline: float, environment: dict[str, str]
) -> Finished:
    try:
        done = run_process(
            [sys.executable, "-c", _ASK, host.uri],
            env=environment,
            timeout=max(1.0, deadline - time.monotonic()),
        )
        if done.returncode == _NO_LIBVIRT:  # libvirt-python is optional
            ask = "virsh version --daemon >/dev/null && virsh capabilities"
            ssh = find_program("ssh") or "ssh"
            done = run_process(
                [ssh, "-F", str(host.ssh_config), "127.0.0.1", ask],
                env=environment,
                timeout=max(1.0, deadline - time.monotonic()),
            )
    except OutOfTime:
        raise TimedOut(f"lab {kind.name} is up, but its libvirt did not answer in time") from None
    return done


def _last_words(folder: Path) -> str:
    lines = [
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip()
        for line in _text(folder / cl.CONSOLE).splitlines()
    ]
    words = "\n  ".join([line for line in lines if line][-_LAST_LINES:])
    return f"; the last lines of its console:\n  {words}" if words else ", and printed nothing"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
