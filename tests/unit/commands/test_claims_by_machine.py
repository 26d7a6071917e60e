"""The claims of a fleet, machine by machine."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.cli import main

if TYPE_CHECKING:
    from pathlib import Path

FACTS = {"cpu_model": "A", "logical_cpus": "2", "memory": "7.9 GiB", "kernel": "6.1"}


def claim(machine: str, estimate: float, **more: Any) -> dict[str, Any]:
    hardware = {"profile": "box", "location": "", "matches": True, "mismatches": []}
    return {
        "name": "start.pod", "verdict": "holds", "reason": "", "criterion": "≤ 400 ms",
        "statistic": "median", "unit": "ms", "estimate": estimate, "interval": None, "n": 9,
        "samples": [], "target": "pod", "targets": [], "hardware": hardware,
        "nodeid": "test_it.py::test_it", "started_at": "2026-11-20T10:00:00+00:00",
        "machine": {"name": machine, **FACTS}, **more,
    }  # fmt: skip


def run(path: Path, day: int, *claims: dict[str, Any], **more: Any) -> str:
    names = sorted({each["machine"]["name"] for each in claims})
    content = {
        "format": 1, "vperf": "0.1.0", "started": f"2026-11-{day:02}T10:00:00+00:00",
        "profile": None, "fingerprint": None, "claims": list(claims),
        "machines": {name: {"type": "type1", **FACTS} for name in names}, **more,
    }  # fmt: skip
    path.write_text(json.dumps(content))
    return str(path)


def levels(seed: int, number: int, spread: float = 0.01) -> dict[str, float]:
    random.seed(seed)
    return {f"h{each}": 350 * random.lognormvariate(0, spread) for each in range(number)}


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["claims", *words, "--by=machine", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_odd_one_out_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machines = {**levels(1, 6), "slow": 420.0}
    machines_differ = {
        name: {"type": "type1", **FACTS, "runc": "1.2" if name == "slow" else "1.1"}
        for name in machines
    }
    path = run(
        tmp_path / "run.json",
        1,
        *(claim(*each) for each in machines.items()),
        machines=machines_differ,
    )
    (found,) = asked(capsys, path)["claims"]
    assert (found["type"], found["claim"], found["unit"]) == ("type1", "start.pod", "ms")
    assert [each["machine"] for each in found["machines"] if each["odd"]] == ["slow"]
    assert main(["claims", path, "--by=machine"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "type1:"
    assert out[2] == "claim       machine   last verdict   level      of its type   runs"
    assert len(out[4:-4]) == len(machines)
    assert out[-3:] == [
        "odd one out: start.pod on slow: 420 ms, +18.8 % of the median of its type",
        "machines differ: type1: runc 1.1 on h0, h1, h2, h3, h4, h5; 1.2 on slow",
        "machines: 1 of 1 claims have an odd one out, 0 one that drifts; each of the two may be wrong in 1 % of such"
        " tables",
    ]
    assert max(map(len, out[:-4])) <= 80


def test_a_machine_that_drifts_against_its_type_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for day in range(1, 13):
        every = levels(day, 5, 0.002)
        every["h3"] = every["h3"] * 1.01**day
        # All become slower alike: that is no drift of one.
        own = (claim(name, level * 1.05**day) for name, level in every.items())
        paths.append(run(tmp_path / f"{day}.json", day, *own))
    (found,) = asked(capsys, *paths)["claims"]
    drifts = {each["machine"]: each["drift"] for each in found["machines"] if each["drift"]}
    assert list(drifts) == ["h3"]
    assert drifts["h3"]["pace"] == pytest.approx(1.01, abs=0.001)
    main(["claims", *paths, "--by=machine"])
    out = capsys.readouterr().out
    assert re.search(
        r"^drifts: start.pod on h3: \+(1|0\.9)\S* % a run against its type, over 12 runs$",
        out,
        re.M,
    )


def test_a_stored_run_has_a_record_for_each_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in range(1, 13):
        for name, level in levels(day, 3, 0.001).items():
            run(
                tmp_path / f"{day}{name}.json",
                day,
                claim(name, level * (1.01**day if name == "h1" else 1)),
            )
    (found,) = asked(capsys, str(tmp_path))["claims"]
    assert [(each["machine"], each["runs"]) for each in found["machines"]] == [
        ("h0", 12),
        ("h1", 12),
        ("h2", 12),
    ]
    assert [each["machine"] for each in found["machines"] if each["drift"]] == ["h1"]


def test_of_two_machines_nobody_knows_which_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path / "run.json", 1, claim("h1", 300), claim("h2", 900, unit="us"))
    (found,) = asked(capsys, path)["claims"]
    assert not found["compared"]
    assert [each["level"] for each in found["machines"]] == [300_000, 900]
    main(["claims", path, "--by=machine"])
    assert "; 1 on fewer than 3 machines of a type" in capsys.readouterr().out


def test_figures_that_have_no_logarithm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = (claim(f"h{each}", float(each)) for each in range(4))
    (found,) = asked(capsys, run(tmp_path / "run.json", 1, *own))["claims"]
    assert {each["ratio"] for each in found["machines"]} == {None}


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    none = {**claim("h1", 1), "machine": {}}
    path = run(tmp_path / "run.json", 1, claim("h1", 1), machines={})
    (tmp_path / "run.json").write_text(
        json.dumps({**json.loads((tmp_path / "run.json").read_text()), "claims": [none]})
    )
    assert main(["claims", path, "--by=machine"]) == 2
    message = "vperf claims: no claim was measured in a run over a fleet: see --claims-fleet\n"
    assert capsys.readouterr().err == message
    with pytest.raises(SystemExit):
        main(["claims", path, "--by=machine", "--markdown"])
    assert "--by goes with --json, --output, --hw and -k alone" in capsys.readouterr().err
