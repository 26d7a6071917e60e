"""Mount namespaces in which a hybrid tree of control groups looks like plain version 1.

On a hybrid machine the controllers are of version 1, and an empty tree of version 2 is mounted beside them, usually
at ``/sys/fs/cgroup/unified``. crun refuses such a machine ("cgroups in hybrid mode not supported, drop all
controllers from cgroupv2"); where that mount is not visible, it works as on version 1.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine.cgroups import hierarchies
from pytest_vperf.machine.ending import end_by_input, start_bound
from pytest_vperf.machine.procfile import text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_vperf.machine.procfile import Read

#: How a record says that a runtime saw such a view.
HIDDEN = "version 1 of a hybrid tree (version 2 hidden in a mount namespace)"


def hybrid(read: Read = text) -> Path | None:
    """The mount point of version 2 on a hybrid machine; ``None`` if the machine has only one version.

    Args:
        read: reads the machine's files.
    """
    found = hierarchies(read)
    return found.get("") if len(found) > 1 else None


def hiding(point: Path) -> tuple[str, ...]:
    """The prefix that runs a command in a mount namespace of its own, without one mount."""
    script = f'umount {shlex.quote(str(point))} && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh")


class View:
    """A mount namespace without version 2, which many commands can enter; closed with `close`.

    Args:
        point: where version 2 is mounted.
        env: the environment of the process that holds the namespace.

    Attributes:
        entering: the prefix that runs a command in it.

    Raises:
        OSError: it cannot be made; says why.
    """

    def __init__(self, point: Path, env: Mapping[str, str]) -> None:
        self._holder = start_bound(
            [*hiding(point), "sh", "-c", "echo; read -r word"],
            signal.SIGKILL,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if not self._holder.stdout.read(1):  # it writes once it is inside
            said = self._holder.stderr.read().decode(errors="replace").strip()
            self.close()
            raise OSError(f"{point} cannot be hidden in a mount namespace: {said or 'it ended'}")
        self.entering = ("nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--")

    @property
    def has_ended(self) -> bool:
        """Whether what holds it has died."""
        return self._holder.poll() is not None

    def close(self) -> None:
        """End the process that holds it. Safe to repeat."""
        end_by_input(self._holder, 1.0)
