"""An OCI runtime that starts an emulated machine for each container, as Kata Containers does; small, for tests.

    machine_runtime.py --kernel=FILE create --bundle DIR --pid-file FILE ID

The root file system is the machine's initramfs, so it has to be small. Of the machine's serial ports the first has
the process's output, the second takes commands, a line each, and the third says how the process ended.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INIT = """#!/bin/sh
mkdir -p /proc /sys /dev
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
stty -F /dev/ttyS1 raw -echo; stty -F /dev/ttyS0 -opost
exec 3<>/dev/ttyS1
echo ready >&3
while read -r word line <&3; do
  case $word in
  start)
    ( sh -c "$line" </dev/null >/dev/ttyS0 2>&1; echo $? >/dev/ttyS2; sync; reboot -f ) 3>&- &
    echo running >&3 ;;
  run)
    sh -c "$line" </dev/null >/.out 2>/.err 3>&-; status=$?
    base64 -w0 /.out >&3; echo >&3; base64 -w0 /.err >&3; echo >&3; echo $status >&3 ;;
  esac
done
"""
BOOTS_WITHIN = 60


def archive(root: Path) -> Iterator[bytes]:
    """A cpio archive ("newc") of a folder's files and `INIT`."""

    def entry(name: str, mode: int, content: bytes = b"") -> bytes:
        encoded = name.encode() + b"\0"
        fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)

    for path in sorted(root.rglob("*")):
        name, mode = str(path.relative_to(root)), path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield entry(name, mode, str(path.readlink()).encode())
        elif stat.S_ISREG(mode):
            yield entry(name, mode, path.read_bytes())
        elif stat.S_ISDIR(mode):
            yield entry(name, mode)
    yield entry(".init", stat.S_IFREG | 0o755, INIT.encode())
    yield entry("TRAILER!!!", 0)


class Machine:
    """A container's machine: its folder has the bundle's path, the process's number, and the port for commands."""

    def __init__(self, root: str, identity: str) -> None:
        self.identity = identity
        self.folder = Path(root).absolute() / identity

    def create(self, kernel: str, bundle: Path, pid_file: Path) -> None:
        self.folder.mkdir(parents=True)
        config = json.loads((bundle / "config.json").read_text())
        image = self.folder / "initramfs"
        with image.open("wb") as file:
            file.writelines(archive(bundle / config["root"]["path"]))
        shutil.copy(bundle / "config.json", self.folder / "config.json")
        if pid := os.fork():
            pid_file.write_text(str(pid))
            (self.folder / "pid").write_text(str(pid))
            (self.folder / "bundle").write_text(str(bundle))
            deadline = time.monotonic() + BOOTS_WITHIN
            while not (self.folder / "control").exists():
                if time.monotonic() > deadline or os.waitpid(pid, os.WNOHANG)[0]:
                    raise RuntimeError("the machine did not start")
                time.sleep(0.005)
            self.ask("", 1, until="ready")
            return
        os.setsid()
        join(config)
        os._exit(self.live(kernel, image))

    def live(self, kernel: str, image: Path) -> int:
        """Be the container's process: run the machine to its end, and return the status that it wrote."""
        ended = self.folder / "ended"
        process = subprocess.Popen(
            [
                *("unshare", "--net", "qemu-system-x86_64", "-nodefaults", "-display", "none"),
                *("-machine", "q35,accel=tcg", "-m", "256", "-no-reboot"),
                *("-kernel", kernel, "-initrd", str(image), "-append", "quiet rdinit=/.init"),
                *("-chardev", "stdio,id=out,signal=off", "-serial", "chardev:out"),
                *("-chardev", "socket,id=in,path=control,server=on,wait=off"),
                *("-serial", "chardev:in", "-serial", f"file:{ended}"),
            ],
            cwd=self.folder,  # a socket's path may have 107 bytes
        )
        signal.signal(signal.SIGTERM, lambda *_: process.kill())
        status = process.wait()
        said = ended.read_text().strip() if ended.exists() else ""
        return int(said) if said else 128 + abs(status)

    def ask(self, line: str, answers: int, until: str = "") -> Sequence[str]:
        """Send a line to the machine, and return the lines that it answers."""
        with (self.folder / "lock").open("w") as lock, socket.socket(socket.AF_UNIX) as port:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.chdir(self.folder)
            self.connect(port)
            if line:
                port.sendall(f"{line}\n".encode())
            with port.makefile(encoding="utf-8") as file:
                found = [file.readline().rstrip("\r\n") for _ in range(answers)]
        if until and found != [until]:
            raise RuntimeError(f"the machine said {found!r} instead of {until!r}")
        return found

    @staticmethod
    def connect(port: socket.socket) -> None:
        """Connect to the machine: QEMU makes the socket's file a moment before it listens."""
        deadline = time.monotonic() + BOOTS_WITHIN
        while True:
            try:
                return port.connect("control")
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def start(self) -> None:
        config = json.loads((self.folder / "config.json").read_text())
        self.ask(f"start exec {words(config['process'])}", 1, until="running")
        (self.folder / "started").touch()

    def run(self, process: Mapping[str, Any], pid_file: str, detach: bool) -> int:
        if detach and (pid := os.fork()):
            Path(pid_file).write_text(str(pid))
            return 0
        out, err, status = self.ask(f"run {words(process)}", 3)
        for stream, text in ((sys.stdout, out), (sys.stderr, err)):
            stream.buffer.write(base64.b64decode(text))
            stream.flush()
        return int(status)

    def state(self) -> dict[str, Any]:
        pid = int((self.folder / "pid").read_text())
        alive = Path(f"/proc/{pid}/exe").exists()
        status = (
            ("running" if (self.folder / "started").exists() else "created") if alive else "stopped"
        )
        return {
            "ociVersion": "1.0.2",
            "id": self.identity,
            "pid": pid,
            "status": status,
            "bundle": (self.folder / "bundle").read_text(),
        }

    def kill(self) -> None:
        if (state := self.state())["status"] != "stopped":
            os.kill(state["pid"], signal.SIGTERM)

    def delete(self) -> None:
        if not self.folder.exists():
            return
        self.kill()
        while self.state()["status"] != "stopped":
            time.sleep(0.005)
        for group in groups(json.loads((self.folder / "config.json").read_text())):
            if group.exists():
                group.rmdir()
        shutil.rmtree(self.folder)


def words(process: Mapping[str, Any]) -> str:
    """A process of a bundle as a command of the machine's shell."""
    command = ("env", "-i", *process.get("env", ()), *process["args"])
    return shlex.join(("sh", "-c", f"cd {shlex.quote(process['cwd'])} && exec {shlex.join(command)}"))  # fmt: skip


def groups(config: Mapping[str, Any]) -> Iterator[Path]:
    """The container's control group in each hierarchy."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(point) / config["linux"]["cgroupsPath"].lstrip("/")


def join(config: Mapping[str, Any]) -> None:
    """Put this process into its control groups, and set the limits that tests ask for."""
    asked = config["linux"].get("resources", {})
    memory, pids = (asked.get(name, {}).get("limit") for name in ("memory", "pids"))
    limits = {"memory.limit_in_bytes": memory, "memory.max": memory, "pids.max": pids}
    for group in groups(config):
        group.mkdir(parents=True, exist_ok=True)
        for above in reversed((group, *group.parents)):
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (above / name).exists() and not (above / name).read_text().strip():
                    (above / name).write_text((above.parent / name).read_text())
        for name, limit in limits.items():
            if limit and limit > 0 and (group / name).exists():
                (group / name).write_text(str(limit))
        (group / "cgroup.procs").write_text(str(os.getpid()))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="version", version="machine-runtime 1.0")
    for name in ("--kernel", "--root", "--log", "--log-format"):
        parser.add_argument(name, default="/dev/null")
    parser.add_argument("--systemd-cgroup", action="store_true")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("create", "start", "exec", "state", "kill", "delete"):
        command = commands.add_parser(name)
        for option in ("--bundle", "--pid-file", "--console-socket", "--process"):
            command.add_argument(option)
        for option in ("--force", "--all", "--detach", "--no-pivot", "--no-new-keyring"):
            command.add_argument(option, action="store_true")
        command.add_argument("id")
        command.add_argument("rest", nargs="*")
    given = parser.parse_args()
    try:
        return run(given, Machine(given.root, given.id))
    except Exception as error:  # an engine reads the log, and shows its last line
        entry = {"level": "error", "msg": f"{type(error).__name__}: {error}"}
        Path(given.log).write_text(json.dumps(entry) + "\n")
        raise


def run(given: argparse.Namespace, machine: Machine) -> int:
    if given.command == "create":
        machine.create(given.kernel, Path(given.bundle), Path(given.pid_file))
    elif given.command == "exec":
        return machine.run(
            json.loads(Path(given.process).read_text()), given.pid_file, given.detach
        )
    elif given.command == "state":
        print(json.dumps(machine.state()))
    else:
        getattr(machine, given.command)()
    return 0


if __name__ == "__main__":
    sys.exit(main())
