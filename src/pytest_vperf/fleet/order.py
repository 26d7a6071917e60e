"""What a machine of a fleet is told: which tests it is to run, and all that they need to know of the run."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from typing import TYPE_CHECKING

from pytest_vperf.machine.ownership import name as user_name
from pytest_vperf.run.baseline import for_machine
from pytest_vperf.run.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest

    from pytest_vperf.fleet.plan import Shard
    from pytest_vperf.fleet.project import Project

#: Variables that are a part of the command line.
_COMMAND = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
#: Settings that say where results go, how they are reached or drawn: all others are a part of what is measured.
_NOT_MEASURED = {
    "benchmark_json",
    "exports",
    "fleet",
    "fleet_plan",
    "json",
    "save",
    "seed",
    "store",
}
#: What an order is about, in words for one that was about something else.
_OTHER = {
    "tests": "other tests",
    "project": "another state of the project's files",
    "options": "other options",
}


class Orders:
    """The orders of a run.

    Args:
        config: of the run.
        project: that is sent with them; ``None``: it is there.
        shards: all of them, as they were planned: the run errs with its alpha over all of their claims.
        machines: how many there are.
    """

    def __init__(
        self, config: pytest.Config, project: Project | None, shards: Iterable[Shard], machines: int
    ) -> None:
        self._config, self._project, self._machines = config, project, machines
        self._session = claims_session(config)
        claiming = {item.nodeid for item in self._session.claiming}
        self._claims = sum(test in claiming for shard in shards for test in shard.tests)
        self._about = {
            "project": "" if project is None else project.cargo.digest,
            "options": _hashed(
                {
                    key: str(each).replace(str(config.rootpath), ".")
                    for key, each in vars(self._session.settings).items()
                    if key not in _NOT_MEASURED
                }
            ),
        }

    def line(self, shard: Shard) -> bytes:
        """The order of a shard, as it is sent."""
        config, machine, own = self._config, shard.machine, {}
        if self._session.claiming and (baseline := self._session.baseline) is not None:
            own["vperf_baseline"] = for_machine(baseline, machine.name)
        order = {
            "who": f"process {os.getpid()} of {user_name(os.getuid())} on {socket.gethostname()}",
            "folder": str(config.invocation_params.dir),
            "words": [str(word) for word in config.invocation_params.args],
            "environment": {key: os.environ[key] for key in _COMMAND if key in os.environ},
            "about": self._of(shard),
            "tests": list(shard.tests),
            "cargo": self._project and self._project.order,
            "input": {
                "workerid": machine.name,
                "workercount": self._machines,
                "testrunuid": self._session.run.mark,
                "mainargv": list(config.invocation_params.args),
                "vperf_claims_of_run": self._claims,
                "vperf_attempts": 0 if shard.before is None else 1,
                "vperf_machine": {"name": machine.name},
                **own,
            },
        }
        return f"{json.dumps(order)}\n".encode()

    def other(self, shard: Shard, about: Mapping[str, str]) -> str:
        """What another order was about that this shard's is not, in words; empty if they are the same.

        Args:
            shard: which.
            about: the other order, as its machine repeats that.
        """
        own = self._of(shard)
        return ", ".join(words for key, words in _OTHER.items() if about.get(key) != own[key])

    def _of(self, shard: Shard) -> dict[str, str]:
        return {"tests": _hashed(shard.tests), **self._about}


def _hashed(what: object) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
