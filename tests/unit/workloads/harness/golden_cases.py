"""Golden files: what a tool printed, and what its parser has to make of it.

A case is two files, and no code: ``golden/TOOL/NAME.txt`` is what was printed, byte for byte, and ``NAME.yaml`` says

    workload: sysbench.cpu                  # as in pytest_vperf.workloads.registry
    parameters: {max_prime: 20000}          # of its dataclass
    version: 1.0.20                         # of the tool; "" where it was not asked
    origin: recorded with sysbench 1.0.20 of Debian 12   # or: constructed from DOCUMENT
    stderr: NAME.err                        # optional: what was said on standard error
    argv: [cpu, --cpu-max-prime=20000, run] # optional: the command line of this version
    result: {total_time: 85.37 s}           # fields of the result; quantities as texts
    error: "sysbench 1.0.20: there is …"    # instead of result: the ParseError, up to "; it printed:"
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.base import Output
from pytest_vperf.workloads.registry import workload_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_vperf.workloads.base import Workload

GOLDEN = Path(__file__).parents[1] / "golden"

_KEYS = {
    "workload",
    "parameters",
    "version",
    "origin",
    "stderr",
    "argv",
    "result",
    "error",
}


@dataclass(frozen=True)
class Case:
    """A golden file's output and what it says about it; ``raw`` is what the tool says its figures on."""

    name: str
    workload: str
    parameters: Mapping[str, Any]
    output: Output
    origin: str
    argv: tuple[str, ...] | None = None
    result: Mapping[str, Any] | None = None
    error: str | None = None
    raw: bytes = field(default=b"", repr=False)

    @functools.cached_property
    def made(self) -> Workload[Any]:
        """The workload with the case's parameters."""
        values = {key: _frozen(value) for key, value in self.parameters.items()}
        return workload_class(self.workload)(**values)


def load(path: Path) -> Case:
    """Read a case from its YAML file and the text beside it."""
    said = yaml.safe_load(path.read_text())
    unknown = set(said) - _KEYS
    assert not unknown, f"{path}: unknown keys {sorted(unknown)}"
    assert ("result" in said) != ("error" in said), f"{path}: one of result and error is needed"
    origin = said["origin"]
    assert origin.startswith(("recorded", "constructed from")), f"{path}: origin is {origin!r}"
    raw = path.with_suffix(".txt").read_bytes()
    stderr = path.with_name(said["stderr"]).read_bytes() if said.get("stderr") else b""
    output = Output(
        raw.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"), str(said["version"])
    )
    return Case(
        name=str(path.relative_to(GOLDEN).with_suffix("")),
        workload=said["workload"],
        parameters=said.get("parameters") or {},
        output=output,
        origin=origin,
        argv=tuple(str(word) for word in said["argv"]) if "argv" in said else None,
        result=said.get("result"),
        error=said.get("error"),
        raw=raw or stderr,
    )


def paths() -> list[Path]:
    """The YAML files of all cases, in order."""
    return sorted(GOLDEN.glob("*/*.yaml"))


def cases() -> list[Case]:
    """All cases, in order."""
    return [load(path) for path in paths()]


def differences(expected: Mapping[str, Any], result: Any, at: str = "") -> Iterator[str]:
    """Where a result is not what a golden file says."""
    for name, value in expected.items():
        where = f"{at}{name}"
        if isinstance(result, dict):
            if name not in result:
                yield f"{where}: not there"
                continue
            actual = result[name]
        elif not hasattr(result, name):
            yield f"{where}: {type(result).__name__} has no such field"
            continue
        else:
            actual = getattr(result, name)
        yield from _difference(where, value, actual)


def _difference(where: str, expected: Any, actual: Any) -> Iterator[str]:
    if isinstance(expected, dict):
        yield from differences(expected, actual, f"{where}.")
    elif isinstance(expected, list):
        if not isinstance(actual, (tuple, list)) or len(actual) != len(expected):
            yield f"{where}: {actual!r}, expected {len(expected)} items"
            return
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from _difference(f"{where}[{index}]", one, other)
    elif isinstance(actual, Quantity):
        wanted = Quantity.parse(str(expected))
        near = abs(wanted.value - actual.value) <= 1e-9 * abs(wanted.value)
        if not near or wanted.unit != actual.unit.replace(" ", ""):
            yield f"{where}: {actual.value!r} {actual.unit}, expected {expected}"
    elif isinstance(actual, float) and isinstance(expected, (int, float)):
        if abs(expected - actual) > 1e-9 * abs(expected):
            yield f"{where}: {actual!r}, expected {expected!r}"
    elif expected != actual or type(expected) is not type(actual):
        yield f"{where}: {actual!r}, expected {expected!r}"


def figures(result: Any, at: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a result, with its name; numbers in quantities and in what is nested too."""
    if isinstance(result, bool) or result is None or isinstance(result, str):
        return
    if isinstance(result, (int, float)):
        yield at, result
    elif isinstance(result, Quantity):
        yield at, result.value
        yield from ((f"{at}.{name}", value) for name, value in result.breakdown)
    elif dataclasses.is_dataclass(result):
        for item in dataclasses.fields(result):
            yield from figures(getattr(result, item.name), f"{at}.{item.name}".lstrip("."))
    elif isinstance(result, dict) or hasattr(result, "items"):
        for name, value in result.items():
            yield from figures(value, f"{at}[{name}]")
    elif isinstance(result, (tuple, list, set, frozenset)):
        for index, value in enumerate(result):
            yield from figures(value, f"{at}[{index}]")
    else:
        raise AssertionError(f"{at}: a result holds a {type(result).__name__}")


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
