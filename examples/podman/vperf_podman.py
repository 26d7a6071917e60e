"""Containers of podman as targets: `podman`, one that runs, and `podmans.start()`, with the time it took.

They run from the same unpacked image as other targets, with an overlay for what they write. All that podman keeps is
in the run's folder, and goes with it, whatever happens to the run. Limits and networks are left out here.
"""

from __future__ import annotations

import secrets
import shlex
import time
from dataclasses import replace
from typing import Any

import pytest

import pytest_vperf as vperf

MARK = "VPERF_PODMAN"


class Podman(vperf.CommandTarget):
    """A running container."""

    kind = "podman"

    def __init__(self, call: Any, rootfs: Any, name: str, cgroup: str) -> None:
        self._call, self.rootfs, self.name = call, rootfs, name
        self.details = {"podman": call("--version").text.strip()}
        self._id = f"vperf-{secrets.token_hex(6)}"
        words = (f"--name={self._id}", f"--cgroup-parent=/{cgroup}", "--network=none", "--rootfs")
        image = f"{vperf.image_folder(rootfs)}:O"
        began = time.monotonic()
        done = call("run", "--detach", *words, image, "tail", "-f", "/dev/null")
        took = (time.monotonic() - began) * 1e3
        if done.returncode:
            self.close()
            raise vperf.CannotStart(done.stderr.decode(errors="replace"), target=name)
        self.startup_time = vperf.Quantity(took, "ms", direction="lower")

    def _run(self, command: vperf.Command) -> vperf.Completed:
        mark = secrets.token_hex(8)
        env = [f"--env={name}={text}" for name, text in {**command.env, MARK: mark}.items()]
        cwd = [f"--workdir={command.cwd}"] if command.cwd else []
        words = ["exec", "--interactive", *env, *cwd, self._id, *command.argv]
        more = {"timeout": command.timeout, "max_output": command.max_output}
        try:
            done: vperf.Completed = self._call(*words, input=command.input, **more)
        except (vperf.TimedOut, vperf.TooMuchOutput):  # podman was ended, and the command was not
            self._call("exec", self._id, *vperf.end_marked(MARK, mark))
            raise
        if done.returncode in (125, 255):  # podman's own, unless it is the command's
            state = self._call("inspect", "--format={{.State.Running}}", self._id).text
            if state.strip() != "true":
                raise vperf.CannotConnect(done.stderr.decode(errors="replace"), target=self.name)
        return replace(done, argv=command.argv)

    def close(self) -> None:
        """Remove the container."""
        self._call("rm", "--force", "--time=0", "--ignore", self._id)


def pytest_vperf_target_kinds() -> list[vperf.TargetKind]:
    """Add the kind."""
    return [vperf.TargetKind("podman", fixtures=frozenset({"podmans"}))]


def pytest_vperf_side_keys() -> list[vperf.SideKey]:
    """Let a gate compare two builds: `--claims-head podman=./bin/podman`."""
    key = vperf.SideKey("podman", vperf.program_of_side, frozenset({"podmans"}), lambda: "podman")
    return [replace(key, version=vperf.program_version)]


@pytest.fixture
def podmans(vperf_run: Any, vperf_scope: Any, vperf_sides: Any, vperf_rootfs: Any) -> Any:
    """Starts containers of podman: ``podmans.start().startup_time``."""

    def of(side: Any) -> vperf.Starting:
        command = shlex.split(side.settings.get("podman", "podman"))
        host, folder = vperf.Host(vperf_run), vperf_run.subfolder("podman")
        flags = ("root=", "runroot=", "tmpdir=", "runtime-flag=root=")
        places = [f"--{flag}{folder}/{n}" for n, flag in enumerate(flags)]  # a runroot is short

        def call(*words: str, **options: Any) -> vperf.Completed:
            return host.run([*command, *places, *words], check=False, **options)

        def start() -> Podman:
            if not vperf.program_version(shlex.join(command)):
                raise vperf.Unavailable("there is no podman", remedy="apt-get install podman")
            return Podman(call, side.of(vperf_rootfs)(), f"podman{side.mark}", vperf_run.cgroup)

        return vperf.Starting(start, vperf_scope)

    return vperf_sides.each(of, "podman", of=(vperf_rootfs,))


@pytest.fixture
def podman(podmans: Any) -> Any:
    """A running container of podman."""
    return podmans.start()
