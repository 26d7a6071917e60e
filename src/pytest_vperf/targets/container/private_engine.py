"""A private Docker engine, for a machine where none answers: started for the run, and stopped and removed with it.

It shares nothing with an installed engine: it has its own containerd (an installed one may run without its dockerd),
folders, socket and control group; it makes no bridge and no firewall rule. dockerd gets its own network namespace: in
the host's it would enable forwarding and, configured without a bridge, remove another engine's ``docker0``.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from pytest_vperf.machine import cgroups, mounts
from pytest_vperf.machine.ending import end_by_input, start_bound
from pytest_vperf.machine.leftovers import remove_folder, shim_sockets
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.processes import end, owned_by
from pytest_vperf.machine.waits import waiting_for
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable, last_lines
from pytest_vperf.targets.container import runtimes
from pytest_vperf.targets.container.address import knock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_vperf.machine.runs import Run

#: The variable that marks the processes of one engine, besides the run's mark.
ENGINE_MARK = "VPERF_ENGINE"
_OWN_NETWORK = ("unshare", "--net")
_START_TIMEOUT = 60.0
_STOP_TIMEOUT = 15.0
#: Waits for its input to close, using hardly any memory, then runs the command.
_WAIT = """
trap '' HUP INT TERM PIPE
read -r word
exec "$@"
"""
#: Repeated, since a shim may start a process during a pass.
_END = """
import sys
from pathlib import Path
from pytest_vperf.targets.container.private_engine import end_processes
for _ in range(3):
    end_processes(Path(sys.argv[1]), sys.argv[2])
"""


class PrivateEngine:
    """The two daemons of an engine, its folder and its control group.

    Attributes:
        url: the address that it listens on.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._folder = run.subfolder("engine")
        self._dockerd = "dockerd"
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._guardian: subprocess.Popen[bytes] | None = None
        self._builds: list[runtimes.Build] = []
        self.url = f"unix://{self._socket('docker')}"

    @classmethod
    def start(cls, run: Run) -> PrivateEngine:
        """Start containerd and dockerd, and wait until dockerd accepts connections.

        Raises:
            Unavailable: a program is missing.
            CannotStart: a daemon ended or was not ready in time; with the end of its log.
        """
        programs = {name: find_program(name) for name in ("dockerd", "containerd")}
        for name, path in programs.items():
            if path is None:
                raise Unavailable(f"{name} is not installed", remedy="apt-get install docker.io")
        engine = cls(run)
        try:
            with waiting_for("a private dockerd to start"):
                engine._start(str(programs["containerd"]), str(programs["dockerd"]))
        except BaseException:
            engine.stop()
            raise
        return engine

    def _socket(self, name: str) -> Path:
        return self._folder / f"{name}.sock"

    def _start(self, containerd: str, dockerd: str) -> None:
        folder = self._folder
        (folder / "containerd.toml").write_text(
            "version = 2\n"
            f"root = {json.dumps(str(folder / 'c'))}\n"
            f"state = {json.dumps(str(folder / 's'))}\n"
            # The Kubernetes plugin needs a network configuration, and is not used.
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f"[grpc]\naddress = {json.dumps(str(self._socket('containerd')))}\n"
        )
        self._dockerd = dockerd
        self._configure()
        self._guardian = self._watched()
        self._launch("containerd", [containerd, "--config", str(folder / "containerd.toml")])
        self._launch(
            "docker", [dockerd, "--config-file", str(folder / "dockerd.json")], _OWN_NETWORK
        )

    def _configure(self) -> None:
        path = self._folder / "dockerd.json"
        path.write_text(json.dumps(self._configuration(self._dockerd), indent=1))

    def register(self, build: runtimes.Build) -> None:
        """Have the daemon learn a runtime, some time after this returns: it reads its configuration again.

        The daemon's name for it is `runtimes.Build.name`.
        """
        self._builds.append(build)
        self._configure()
        self._daemons[-1].send_signal(signal.SIGHUP)

    def _configuration(self, dockerd: str) -> dict[str, object]:
        folder = self._folder
        configuration: dict[str, object] = {
            "hosts": [self.url],
            "containerd": str(self._socket("containerd")),
            "data-root": str(folder / "d"),
            "exec-root": str(folder / "x"),
            "pidfile": str(folder / "dockerd.pid"),
            "bridge": "none",
            "iptables": False,
            "ip6tables": False,
            # Not the systemd driver, which needs a slice, and a machine with systemd.
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "cgroup-parent": f"/{self._run.cgroup}",
            "runtimes": runtimes.daemon_entries(folder, self._builds),
        }
        if _major_version(dockerd) < 23:
            # An older dockerd would otherwise write a key to /etc/docker; a newer one rejects the option.
            configuration["deprecated-key-path"] = str(folder / "key.json")
        return configuration

    def _watched(self) -> subprocess.Popen[bytes]:
        """Start the process that ends the containers if this one is killed.

        The kernel then ends the daemons; but a container's shim is designed to outlive them, and detaches from them.
        """
        words = [sys.executable, "-c", _END, str(self._folder), self._run.cgroup]
        return subprocess.Popen(
            ["sh", "-c", _WAIT, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._run.environment,
            start_new_session=True,
        )

    def _launch(self, name: str, argv: Sequence[str], inside: Sequence[str] = ()) -> None:
        """Start a daemon, with ``inside`` as a prefix to its command, and wait until it accepts connections."""
        log = self._folder / f"{name}.log"
        # TMPDIR is unchanged: gVisor's sandbox, which runs as nobody, must be able to enter it.
        environment = {**self._run.environment, ENGINE_MARK: str(self._folder)}
        environment.pop("NOTIFY_SOCKET", None)
        with log.open("wb") as stream:
            daemon = start_bound(
                [*inside, *argv],
                signal.SIGKILL,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self._folder,
                # Ctrl-C at the terminal must not reach it: we stop the engine ourselves, in order.
                start_new_session=True,
            )
        self._daemons.append(daemon)
        deadline = time.monotonic() + _START_TIMEOUT
        while knock(self._socket(name)) is not None:
            if daemon.poll() is not None:
                raise CannotStart(
                    f"the private Docker engine did not start: {argv[0]} ended with status"
                    f" {daemon.returncode}; the end of its output:\n{last_lines(log)}"
                )
            if time.monotonic() > deadline:
                raise CannotStart(
                    f"the private Docker engine was not ready within {_START_TIMEOUT:g} s;"
                    f" the end of the output of {argv[0]}:\n{last_lines(log)}"
                )
            time.sleep(0.01)

    @property
    def has_ended(self) -> bool:
        """Whether one of its daemons has died."""
        return any(daemon.poll() is not None for daemon in self._daemons)

    def stop(self) -> None:
        """Stop both daemons, end processes that outlive them, and remove their files. Safe to repeat.

        Raises:
            TargetError: something could not be removed; says what.
        """
        while self._daemons:
            daemon = self._daemons.pop()
            with contextlib.suppress(ProcessLookupError):
                daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        if self._guardian is not None:
            self._guardian.kill()
            end_by_input(self._guardian, 1.0)
            self._guardian = None
        if not self._folder.exists():
            return
        # A container's shim is designed to outlive its daemons, and does after a failed start.
        end_processes(self._folder, self._run.cgroup)
        problems = [mounts.unmount(point) for point in mounts.below(self._folder)]
        problems += [cgroups.remove(group) for group in cgroups.named(self._run.cgroup)]
        for path in shim_sockets(self._folder):
            path.unlink(missing_ok=True)
        problems.append(remove_folder(self._folder))
        if any(problems):
            raise TargetError(
                "the private Docker engine left something behind: "
                + "; ".join(problem for problem in problems if problem)
            )


def end_processes(folder: Path, cgroup: str) -> None:
    """End all processes of an engine.

    Args:
        folder: the engine's.
        cgroup: the name of its containers' parent control group.
    """
    end(owned_by(ENGINE_MARK, folder, cgroup))


def _major_version(dockerd: str) -> int:
    done = subprocess.run([dockerd, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"version (\d+)\.", done.stdout)
    return int(found[1]) if found else 99
