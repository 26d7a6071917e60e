"""The exported JSON Schema: a schema, with words on every key, of one mind with the loader."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from pytest_vperf.thresholds.profile import ThresholdError, json_schema, load_profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BASE = {
    "hardware": {"name": "one", "summary": "s", "match": {"cpu_model": "x"}},
    "claims": {"a.b": {"at_most": "400 ms"}},
}

CALIBRATED = {
    "date": "2026-11-22",
    "figures": ["371 ms", "376 ms", "369 ms"],
    "samples": [24, 24, 9],
    "spread": "0.9 %",
    "margin": "6.4 %",
    "confidence": "99 %",
    "next_runs": 20,
    "machine": {"cpu_model": "x", "logical_cpus": "8"},
    "vperf": "0.1.0",
}


def calibrated(without: str = "", **values: object) -> dict[str, Any]:
    made = {key: value for key, value in {**CALIBRATED, **values}.items() if key != without}
    return {"at_most": "400 ms", "source": {"calibrated": made}}


#: (value for the claim a.b, whether it is right)
CLAIMS: list[tuple[Any, bool]] = [
    ({"at_most": "400 ms"}, True),
    ({"at_most": "400ms", "statistic": "median"}, True),
    ({"at_least": "252 count"}, True),
    ({"ratio": {"at_most": 1}}, True),
    ({"ratio": {"at_least": 0.75}}, True),
    ({"overhead": {"at_most": "2 %"}}, True),
    ({"unknown": "a graph", "unit": "ms"}, True),
    ({"at_most": "1 ms", "source": {"document": "d", "published": {"min": "1 ms"}}}, True),
    ({"at_most": "1 ms", "source": {"document": "d", "also": {"share": ".9 dimensionless"}}}, True),
    ({"at_most": "1 ms", "source": {"document": "d", "also": {"share": ".9"}}}, False),
    ({"at_most": "1 ms", "source": {"document": "d", "also": {"Share": "9 %"}}}, False),
    (calibrated(), True),
    (calibrated(noisy="load 4 on 2 processors"), True),
    ({**calibrated(), "summary": "s", "judge": {"pairs": 64}}, True),
    ({"unknown": "x", "unit": "ms", "source": {"calibrated": CALIBRATED}}, False),
    ({"near": {"value": "1 ms"}, "source": {"calibrated": CALIBRATED}}, False),
    ({"at_most": "1 ms", "source": {"calibrated": CALIBRATED, "document": "d"}}, False),
    ({"at_most": "1 ms", "source": {"calibrated": CALIBRATED, "rule": "x"}}, False),
    ({"at_most": "1 ms", "source": {"calibrated": CALIBRATED, "section": "x"}}, False),
    ({"at_most": "1 ms", "source": {}}, False),
    *((calibrated(without=key), False) for key in CALIBRATED),
    (calibrated(date="today"), False),
    (calibrated(figures=[]), False),
    (calibrated(figures=[371, 376, 369]), False),
    (calibrated(figures="371 ms"), False),
    (calibrated(samples=[24, 24, 0]), False),
    (calibrated(samples=24), False),
    (calibrated(spread="0.01"), False),
    (calibrated(margin="-1 %"), False),
    (calibrated(next_runs=0), False),
    (calibrated(next_runs="20"), False),
    (calibrated(machine="x"), False),
    (calibrated(noisy=""), False),
    ({"at_most": "1 ms", "statistic": "p1"}, True),
    ({"at_most": "1 ms", "statistic": "p99.9"}, True),
    ({"near": {"value": 0.75}}, True),
    ({"near": {"value": 0.75, "tolerance": "5 %"}}, True),
    ({"near": {"value": "70000 packet/s", "tolerance": 0.05}}, True),
    ({"near": {"value": "95 %"}, "judge": {"tolerance": "0.5 %"}}, True),
    ({"saturates": {"near": "70000 packet/s"}}, True),
    ({"saturates": {"near": "70000 packet/s", "tolerance": "5 %"}}, True),
    ({"saturates": {"near": "70000 packet/s"}, "judge": {"tolerance": "5 %"}}, True),
    (
        {"saturates": {"near": "7 s", "tolerance": "5 %"}, "judge": {"tolerance": "5 %"}},
        False,
    ),
    ({"saturates": {"near": 70000}}, False),
    ({"saturates": {"tolerance": "5 %"}}, False),
    ({"saturates": "70000 packet/s"}, False),
    ({"saturates": {"near": "7 s"}, "near": {"value": "7 s"}}, False),
    ({"saturates": {"near": "7 s"}, "statistic": "median"}, False),
    ({"no_worse": "lower_is_better"}, True),
    ({"no_worse": "higher_is_better", "judge": {"tolerance": "2 %", "alpha": 0.001}}, True),
    ({"at_most": "1 ms", "judge": {"beta": 0.2, "pairs": 4, "budget": "2 min"}}, True),
    ({"at_most": "1 ms", "judge": {"alpha": "1 %"}}, True),
    ({"unknown": "a graph", "unit": "ms", "judge": {"budget": "5 s"}}, True),
    ({"ratio": {"at_most": 1}, "judge": {}}, True),
    ({"at_most": "1 ms", "tolerance": "2 %"}, False),
    ({"at_most": "1 ms", "alpha": 0.01}, False),
    ({"at_most": "1 ms", "judge": {"tolerance": "2 %"}}, True),
    ({"at_least": "1 ms", "judge": {"tolerance": 0.02}}, True),
    ({"ratio": {"at_most": 1}, "judge": {"tolerance": "2 %"}}, False),
    ({"overhead": {"at_most": "2 %"}, "judge": {"tolerance": "2 %"}}, False),
    ({"unknown": "a graph", "unit": "ms", "judge": {"tolerance": "2 %"}}, False),
    ({"near": {"value": 1, "tolerance": "2 %"}, "judge": {"tolerance": "2 %"}}, False),
    ({"near": {"value": 0.75}, "no_worse": "lower_is_better"}, False),
    ({"near": {"value": 0.75}, "statistic": "p95"}, False),
    ({"near": {"value": 0}}, False),
    ({"near": {"value": "0.75"}}, False),
    ({"near": {"tolerance": "5 %"}}, False),
    ({"near": 0.75}, False),
    ({"near": {"value": 0.75, "tolerance": 5}}, False),
    ({"near": {"value": 0.75, "tolerance": "5 ms"}}, False),
    ({"no_worse": "lower"}, False),
    ({"no_worse": {}}, False),
    ({"at_most": "1 ms", "judge": {"alpha": 0}}, False),
    ({"at_most": "1 ms", "judge": {"alpha": 0.3}}, False),
    ({"at_most": "1 ms", "judge": {"beta": "small"}}, False),
    ({"at_most": "1 ms", "judge": {"pairs": 3}}, False),
    ({"at_most": "1 ms", "judge": {"pairs": 64.5}}, False),
    ({"at_most": "1 ms", "judge": {"budget": 60}}, False),
    ({"at_most": "1 ms", "judge": {"budget": "60"}}, False),
    ({"at_most": "1 ms", "judge": {"samples": 60}}, False),
    ({"at_most": "1 ms", "statistic": "mean"}, False),
    ({"at_most": "1 ms", "statistic": "p100"}, False),
    ({"at_most": 400}, False),
    ({"at_most": "400"}, False),
    ({"at_most": "0.75"}, False),
    ({"at_most": "fast"}, False),
    ({"at_most": "1 ms", "at_least": "1 ms"}, False),
    ({"at_mots": "1 ms"}, False),
    ({}, False),
    ({"summary": "s"}, False),
    ({"ratio": {}}, False),
    ({"ratio": 1}, False),
    ({"ratio": {"at_most": 0}}, False),
    ({"ratio": {"at_most": "1"}}, False),
    ({"ratio": {"at_most": 2, "at_least": 1}}, True),
    ({"ratio": {"at_most": 2, "at_lest": 1}}, False),
    ({"overhead": {"at_most": 2}}, False),
    ({"overhead": {"at_most": "2 ms"}}, False),
    ({"unknown": "a graph"}, False),
    ({"at_most": "1 ms", "unit": "ms"}, False),
    ({"ratio": {"at_most": 1}, "statistic": "median"}, False),
    ({"at_most": "1 ms", "statistic": "mode"}, False),
    ({"at_most": "1 ms", "summary": ""}, False),
    ({"at_most": "1 ms", "summary": 5}, False),
    ({"at_most": "1 ms", "source": {}}, False),
    ({"at_most": "1 ms", "source": {"document": "d", "section": 1.1}}, False),
    ({"at_most": "1 ms", "source": {"document": "d", "published": {"Min": "1 ms"}}}, False),
    ("400 ms", False),
    ([], False),
]

HARDWARE: list[tuple[Any, bool]] = [
    ({"name": "one", "summary": "s", "match": {"logical_cpus": 8, "memory": ">= 15 GiB"}}, True),
    ({"name": "one", "summary": "s", "match": {"logical_cpus": ">= 8", "kernel": "6.1"}}, True),
    ({"name": "One", "summary": "s", "match": {"cpu_model": "x"}}, False),
    ({"name": "auto", "summary": "s", "match": {"cpu_model": "x"}}, False),
    ({"name": "one", "summary": "s"}, False),
    ({"name": "one", "summary": "s", "match": {"cpus": 8}}, False),
    ({"name": "one", "summary": "s", "match": {"logical_cpus": 0}}, False),
    ({"name": "one", "summary": "s", "match": {"memory": 16}}, False),
]


@pytest.fixture(scope="module")
def schema() -> dict[str, object]:
    return json_schema()


def test_the_schema_is_valid_for_its_draft(schema: dict[str, object]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


def properties(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All descriptions of keys, wherever they are."""
    for key, value in part.items() if isinstance(part, dict) else ():
        if key in ("if", "then"):
            continue  # conditions on keys that are described elsewhere
        if key == "properties":
            for name, each in value.items():
                yield f"{path}/{name}", each
        yield from properties(value, f"{path}/{key}")


def test_every_key_has_a_description(schema: dict[str, Any]) -> None:
    keys = dict(properties(schema))
    assert len(keys) > 25
    for path, each in keys.items():
        target = schema["$defs"][each["$ref"].split("/")[-1]] if "$ref" in each else each
        assert each.get("description") or target.get("description"), path
        assert each.get("title") or target.get("title"), path


def test_null_is_no_value(schema: dict[str, object]) -> None:
    assert "null" not in json.dumps(schema)


@pytest.mark.parametrize(
    "data",
    [
        *[({**BASE, "claims": {"a.b": claim}}, good) for claim, good in CLAIMS],
        *[({**BASE, "hardware": hardware}, good) for hardware, good in HARDWARE],
        *[
            ({**BASE, "claims": {name: {"at_most": "1 ms"}}}, good)
            for name, good in [("a.*", True), ("a.b-c.4k", True), ("A.b", False), ("a", False)]
        ],
        ({**BASE, "more": {}}, False),
        ({**BASE, "judge": {"tolerance": "5 %", "budget": "2 min"}}, True),
        ({**BASE, "judge": {"tolerence": "5 %"}}, False),
        ({**BASE, "rule": "the worst one"}, True),
        ({**BASE, "rule": ""}, False),
        ({"hardware": BASE["hardware"]}, False),
        ([], False),
    ],
    ids=lambda data: json.dumps(data[0])[-60:] if isinstance(data, tuple) else "",
)
def test_the_schema_and_the_loader_agree(
    schema: dict[str, object], tmp_path: Path, data: tuple[Any, bool]
) -> None:
    content, good = data
    path = tmp_path / "one.yaml"
    path.write_text(yaml.safe_dump(content))
    try:
        load_profile(path)
    except ThresholdError:
        loads = False
    else:
        loads = True
    valid = jsonschema.Draft202012Validator(schema).is_valid(content)
    assert (loads, valid) == (good, good)
