"""Claims in the JSON format of pytest-benchmark, written by its own code, so that its ``compare`` and histograms read
the file.

It knows times alone: a claim in another unit has no place there. And it knows one build a file: of a gate each side
has a file of its own, in which a claim has the same name, so that two of them are set side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.quantity import DimensionError, conversion_factor
from pytest_vperf.results.record import judged, of_sides

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pytest
    from pytest_benchmark.stats import Metadata

    from pytest_vperf.results.record import ClaimRecord, Observation
    from pytest_vperf.stats.rule import Arm

#: The name of pytest-benchmark's plug-in, as it registers itself.
PLUGIN = "benchmark"


@dataclass
class _Benchmark:
    """What pytest-benchmark's `Metadata` takes from a fixture.

    Attributes:
        name: as its tables show it.
        fullname: by which two files are compared.
        group: what is shown in one table.
        extra_info: what its reader may want to know, beside the times.
    """

    name: str
    fullname: str
    group: str
    extra_info: Mapping[str, Any]
    param: str | None = None
    params: Mapping[str, Any] | None = None
    cprofile_stats: None = None
    has_error: bool = False


def file_of(path: Path, side: str, sides: Sequence[str]) -> Path:
    """The file of a side: the last side, head, has the one that was asked for; base has ``times-base.json``."""
    return path if side == sides[-1] else path.with_name(f"{path.stem}-{side}{path.suffix}")


def begin(path: Path, config: pytest.Config, sides: Sequence[str] = ()) -> None:
    """Write files without any times: an older one must not be taken for this run's.

    Args:
        path: the file.
        config: of the run; pytest-benchmark's plug-in is active.
        sides: of a gate, base first.

    Raises:
        OSError: one cannot be written.
    """
    for file in [file_of(path, side, sides) for side in sides] or [path]:
        _write(file, _document(config, [], {}, {}))


def write(
    path: Path,
    config: pytest.Config,
    records: Sequence[ClaimRecord],
    fingerprint: Mapping[str, Any] | None,
    sides: Sequence[str] = (),
) -> list[str]:
    """Write the times of claims, each sample as a round; an arm of a comparison is a benchmark of its own.

    Args:
        path: the file.
        config: of the run; pytest-benchmark's plug-in is active.
        records: the claims; one without samples is left out.
        fingerprint: of the machine that was measured.
        sides: of a gate, base first; each has a file, see `file_of`.

    Returns:
        the names of claims that were measured, but in another unit.

    Raises:
        OSError: the file cannot be written.
        whatever a hook of pytest-benchmark raises, which projects may have, too.
    """
    left_out: list[str] = []
    for side in sides or ("",):
        found: list[Metadata] = []
        for record in _of_side(records, side):
            if counted := judged(record["observations"]):
                try:
                    found += _benchmarks(record, counted, side)
                except DimensionError:
                    left_out.append(record["name"])
        file = file_of(path, side, sides) if sides else path
        _write_one(file, config, found, fingerprint, is_head=not sides or side != sides[0])
    return list(dict.fromkeys(left_out)) if sides else left_out


def _of_side(records: Sequence[ClaimRecord], side: str) -> Iterator[ClaimRecord]:
    """Of a gate what was measured of a side: its comparisons, and what was judged on it alone, unless that is one."""
    compared = {(each["nodeid"], each["name"]) for each in records if of_sides(each)}
    for each in records:
        alone = not of_sides(each) and (each["nodeid"], each["name"]) not in compared
        if not side or (side in each["sides"].values() and (alone or of_sides(each))):
            yield each


def _write_one(
    path: Path,
    config: pytest.Config,
    found: list[Metadata],
    fingerprint: Mapping[str, Any] | None,
    *,
    is_head: bool,
) -> None:
    session: Any = config.pluginmanager.get_plugin("pytest-benchmark")
    machine = session.get_machine_info()
    if fingerprint and (where := fingerprint.get("on")):
        machine = _other_machine(where, fingerprint)
    hook = config.hook
    commit = hook.pytest_benchmark_generate_commit_info(config=config)
    if not is_head:  # nobody says of which commit base is; pytest-benchmark's own words for that
        commit = {**commit, "id": "unversioned", "time": None, "author_time": None, "dirty": False}
    hook.pytest_benchmark_update_commit_info(config=config, commit_info=commit)
    document = _document(config, found, machine, commit)
    hook.pytest_benchmark_update_json(config=config, benchmarks=found, output_json=document)
    _write(path, document)


def _document(
    config: pytest.Config,
    benchmarks: Sequence[Metadata],
    machine: Mapping[str, Any],
    commit: Mapping[str, Any],
) -> Any:
    return config.hook.pytest_benchmark_generate_json(
        config=config,
        benchmarks=benchmarks,
        include_data=True,
        machine_info=machine,
        commit_info=commit,
    )


def _write(path: Path, document: Any) -> None:
    from pytest_benchmark.utils import safe_dumps

    write_whole(path, safe_dumps(document, ensure_ascii=True, indent=4) + "\n")


def _benchmarks(
    record: ClaimRecord, counted: Sequence[Observation], side: str
) -> Iterator[Metadata]:
    """A claim's arms; of a comparison of sides the one that is this side's.

    Raises:
        DimensionError: its samples are no times.
    """
    from pytest_benchmark.stats import Metadata

    arms: tuple[Arm, ...] = ("a", "b") if any(each["arm"] == "b" for each in counted) else ("a",)
    if of_sides(record):
        arms = tuple(arm for arm in arms if record["sides"].get(arm) == side)
    again = f" (attempt {record['attempt']})" if record["attempt"] > 1 else ""
    for arm in arms:
        told = f" [{arm}]" if len(arms) > 1 else ""
        fixture = _Benchmark(
            name=f"{record['name']}{told}{again}",
            fullname=f"{record['nodeid']}::{record['name']}{told}{again}",
            group=record["name"],
            extra_info={
                "verdict": record["verdict"],
                "criterion": record["criterion"],
                "target": _target(record, arm),
                "sessions": len(record["sessions"]),
            },
        )
        made = Metadata(fixture, iterations=1, options={})
        for each in counted:
            if each["arm"] == arm:
                made.update(each["value"] * conversion_factor(each["unit"], "s"))
        yield made


def _target(record: ClaimRecord, arm: Arm) -> str:
    """What the samples of an arm were taken on; of a comparison, ``target`` names both."""
    named = [each["name"] for each in record["targets"] if arm in each["arms"]]
    return ", ".join(dict.fromkeys(named)) or record["target"]


def _other_machine(where: str, fingerprint: Mapping[str, Any]) -> Mapping[str, Any]:
    """pytest-benchmark's keys for a machine that the run measured on, and did not itself run on."""
    return {
        "node": where,
        "machine": fingerprint.get("architecture"),
        "release": fingerprint.get("kernel"),
        "system": "Linux",
        "cpu": {
            "brand_raw": fingerprint.get("cpu_model"),
            "count": fingerprint.get("logical_cpus"),
        },
    }
