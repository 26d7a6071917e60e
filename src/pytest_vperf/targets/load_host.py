"""Another host: where a server, or the client that loads one, runs apart from what is measured.

By default it is *embedded*: a network namespace of its own on this machine, on the run's own switch. It has an
address and links of its own, and shares this machine's CPUs and memory; the record says so. A machine reached by SSH
is in `pytest_vperf.targets.ssh_host`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import MOST_OUTPUT, CommandFailed, Facts
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.network.commands import entering

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Completed, Link
    from pytest_vperf.targets.host import Tools
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.network.namespaces import Namespace


class EmbeddedHost(Host):
    """A network namespace of this machine as a target.

    Args:
        namespace: where its commands run; it goes with this target.
        link: its link to the switch.
        run: as of `Host`, like the rest.
    """

    name = "other host (embedded)"

    def __init__(
        self,
        namespace: Namespace,
        link: Link,
        run: Run | None = None,
        rootfs: Callable[[], Rootfs] | None = None,
        *,
        tools: Tools = "image",
    ) -> None:
        super().__init__(run, rootfs, tools=tools)
        self.link = link
        self._namespace = namespace

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60.0,
        check: bool = True,
        max_output: int = MOST_OUTPUT,
    ) -> Completed:
        """Run a command in the namespace to its end; see `pytest_vperf.targets.base.Target.run`."""
        if not argv:
            raise ValueError("a command has at least one word")
        done = super().run(
            [*entering(self._namespace.path), *argv],
            input=input,
            env=env,
            cwd=cwd,
            timeout=timeout,
            check=False,
            max_output=max_output,
        )
        completed = replace(done, argv=tuple(argv))
        if check and completed.returncode != 0:
            raise CommandFailed(completed, target=self.name)
        return completed

    def facts(self) -> Facts:
        """As of the host; that it is no machine of its own is said."""
        found = super().facts()
        return Facts(
            "host",
            self.name,
            {**found.details, "placement": "network namespace on this machine"},
        )

    def close(self) -> None:
        """End what commands left running, and take link and namespace away."""
        super().close()
        if (
            self._group is None and self.link is not None
        ):  # a limited one is in the namespace of this one
            self.link.close()
            self._namespace.delete()
