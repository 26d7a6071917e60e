"""The pytest plug-in that ``vperf selfcheck`` loads: its run checks claims instead of judging them.

The command passes a file, ``--selfcheck-request``, and finds the results in its folder: one file for each metric,
written when it is done, so that a run that ends early loses none.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.run.stash import claims_session

if TYPE_CHECKING:
    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Claim
    from pytest_vperf.claims.marks import Result

#: The gravest last: of a claim that is checked twice in a run, the graver finding is kept.
GRAVITY = ("not measured", "too few", "stable", "too noisy", "unstable")
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Options:
    """The options of the command; see `pytest_vperf.commands.selfcheck.check.Request`."""

    claims: list[str]
    decisions: int
    pairs: int
    tolerance: float | None
    budget: float

    def write(self, folder: Path) -> Path:
        """Write the file for ``--selfcheck-request``."""
        path = folder / "request.json"
        path.write_text(json.dumps(asdict(self)), "utf-8")
        return path


def is_pattern(name: str) -> bool:
    """Whether a name is a pattern: with ``*``, ``?`` or ``[``."""
    return _PATTERN.search(name) is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option, which only the command uses."""
    parser.getgroup("vperf").addoption(
        "--selfcheck-request", metavar="FILE", help="used by `vperf selfcheck`"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the run check claims instead of judging them."""
    request: str | None = config.getoption("--selfcheck-request")
    if request is not None:
        path = Path(request)
        options = Options(**json.loads(path.read_text("utf-8")))
        config.pluginmanager.register(_Run(config, options, path.parent), "vperf-selfcheck-run")


class _Run:
    """One pytest run of the command."""

    def __init__(self, config: pytest.Config, options: Options, folder: Path) -> None:
        self._config = config
        self._asked = options
        self._folder = folder
        self._kept: dict[str, Result] = {}
        self._written = 0
        self._seen: set[str] = set()
        claims_session(config).make_claim = self._make

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Refuse names that no threshold file has, before anything starts.

        Raises:
            pytest.UsageError: with the nearest name.
        """
        claims = claims_session(session.config)
        if claims.is_worker:
            return  # an error would reach nobody from here; the command says what no test has named
        selection = claims.hardware.select()
        for name in self._asked.claims:
            if not is_pattern(name):
                try:
                    selection.find(name)
                except LookupError as error:
                    raise pytest.UsageError(str(error)) from None

    def _make(self, name: str, circumstances: Circumstances) -> Claim:
        __tracebackhide__ = True
        from pytest_vperf.commands.selfcheck.check import Request
        from pytest_vperf.commands.selfcheck.claim import CheckedClaim

        options = self._asked
        request = Request(
            decisions=options.decisions,
            pairs=options.pairs,
            tolerance=options.tolerance,
            usual_tolerance=claims_session(self._config).settings.judge["tolerance"].value,
            budget=options.budget,
        )
        made = CheckedClaim(
            name, circumstances, request=request, patterns=options.claims, keep=self._keep
        )
        if name not in self._seen:
            self._seen.add(name)
            self._write("seen", name)
        return made

    def _keep(self, result: Result) -> None:
        """Write a result for the command, and keep its finding for this machine."""
        from pytest_vperf.claims import marks

        self._write("result", result)
        before = self._kept.get(result["claim"])
        if before is None or _gravity(result) >= _gravity(before):
            self._kept[result["claim"]] = result
            marks.keep(result)

    def _write(self, kind: str, content: Any) -> None:
        from pytest_vperf.machine.whole_file import write_whole

        self._written += 1
        # Several processes write where the run is distributed.
        name = f"{kind}-{os.getpid()}-{self._written:06}.json"
        write_whole(self._folder / name, json.dumps(content, allow_nan=False))


def _gravity(result: Result) -> int:
    return GRAVITY.index(result["finding"])
