"""The hooks by which plug-ins add to pytest-vperf; our own are registered by the same hooks.

A hook is implemented in a ``conftest.py`` of the root folder, in a pytest plug-in, or in a module that an entry point
of the group ``pytest_vperf`` names, where a package is no pytest plug-in:

.. code-block:: toml

    [project.entry-points.pytest_vperf]
    csv = "vperf_csv"

The examples below are whole conftest files; the project's tests run each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

    from pytest_vperf.fleet.engines import FleetEngine
    from pytest_vperf.reporting.ended import ExportFormat
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.run.sides import SideKey
    from pytest_vperf.targets.kinds import TargetKind
    from pytest_vperf.workloads.registry import Tool


def pytest_vperf_tools() -> Iterable[Tool]:  # type: ignore[empty-body]
    """Add measuring tools: for each a fixture, and the packages that the image of targets has for it.

    .. code-block:: python

        import time
        from pytest_vperf import Quantity, Tool

        class Shell:
            def __init__(self, bench):
                pass

            def start(self, target):
                began = time.monotonic()
                target.run(["sh", "-c", ":"])
                return Quantity((time.monotonic() - began) * 1e3, "ms", direction="lower")

        def pytest_vperf_tools():
            return [Tool("shell", Shell, packages=("dash",), summary="The time a shell takes.")]
    """


def pytest_vperf_export_formats() -> Iterable[ExportFormat]:  # type: ignore[empty-body]
    """Add formats of files that a run writes at its end, for ``--claims-export=NAME=FILE``.

    .. code-block:: python

        from pytest_vperf import ExportFormat

        def verdicts(run):
            return "".join(f"{claim['verdict']} {claim['name']}\\n" for claim in run.claims)

        def pytest_vperf_export_formats():
            return [ExportFormat("verdicts", verdicts)]
    """


def pytest_vperf_claim_judged(record: ClaimRecord, config: pytest.Config) -> Any:
    """Learn of each claim as soon as it was judged, in the process that pytest was started as.

    The record is a copy, with the keys of ``docs/results.md``. An exception does not stop the run, but the run ends
    with an error.

    .. code-block:: python

        def pytest_vperf_claim_judged(record, config):
            with (config.rootpath / "judged.txt").open("a") as log:
                log.write(f"{record['name']} {record['verdict']}\\n")
    """


def pytest_vperf_threshold_folders() -> Iterable[Path]:  # type: ignore[empty-body]
    """Add folders of threshold files. A project's own win over them, and they win over the shipped ones.

    .. code-block:: python

        from pathlib import Path

        def pytest_vperf_threshold_folders():
            return [Path(__file__).with_name("limits")]
    """


def pytest_vperf_target_kinds() -> Iterable[TargetKind]:  # type: ignore[empty-body]
    """Add kinds of targets. Their fixtures are pytest's own; a kind says what others have to know of them.

    .. code-block:: python

        import pytest
        from pytest_vperf import CommandTarget, Host, TargetKind

        class Chroot(CommandTarget):
            kind = name = "chroot"

            def __init__(self, run, folder):
                self._host, self._folder = Host(run), folder

            def _run(self, command):
                argv = ["chroot", self._folder, *command.argv]
                return self._host.run(argv, input=command.input, timeout=command.timeout, check=False)

            def close(self):
                self._host.close()

        def pytest_vperf_target_kinds():
            return [TargetKind("chroot", fixtures=frozenset({"chroot"}))]

        @pytest.fixture
        def chroot(vperf_run, vperf_scope):
            return vperf_scope.own(Chroot(vperf_run, "/"))
    """


def pytest_vperf_side_keys() -> Iterable[SideKey]:  # type: ignore[empty-body]
    """Add keys that sides of a gate may have, such as ``--claims-head youki=PATH``.

    A fixture reads the value of the side that it makes a target for; ``fixtures`` names those that do, so that a gate
    of this key leaves out all other tests.

    .. code-block:: python

        import shlex
        import subprocess

        import pytest
        from pytest_vperf import SideKey, program_of_side

        def pytest_vperf_side_keys():
            return [SideKey("awk", program_of_side, fixtures=frozenset({"awk"}), usual=lambda: "awk")]

        @pytest.fixture
        def awk(vperf_sides):
            def of(side):
                command = shlex.split(side.settings.get("awk", "awk"))
                return lambda program: subprocess.check_output([*command, program], text=True)

            return vperf_sides.each(of, "awk")
    """


def pytest_vperf_fleet_engines() -> Iterable[FleetEngine]:  # type: ignore[empty-body]
    """Add engines that the file of a fleet may name: what starts a command on a machine. ``engine: containers`` in
    ``fleet.yaml``, with the key ``hosts``, then has this one start it in running containers.

    .. code-block:: python

        from pytest_vperf import FleetEngine, FleetMachine, piped

        class Containers:
            def __init__(self, file):
                self.hosts = file.settings["hosts"]

            def machines(self):
                return [FleetMachine(name, type) for name, type in self.hosts.items()]

            def start(self, machine, command):
                return piped(["docker", "exec", "-i", machine.name, *command])

            def waits(self, said):
                return False  # a start never waits for other users

            def end(self, process):
                process.kill()

            def failed(self, status, said):
                return status == 125  # the engine's own; any other is the command's

            def gone(self):
                return {}  # by name, why a machine cannot run anything

        def pytest_vperf_fleet_engines():
            return [FleetEngine("containers", Containers, keys=("hosts",))]
    """
