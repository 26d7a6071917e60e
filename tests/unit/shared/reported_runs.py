"""Runs as a report has them: one with each kind of picture, one of any size, and one whose texts attack the page."""

from __future__ import annotations

import random
from typing import Any, cast

from fillings import filling

from pytest_vperf.reporting.ended import Difference, EndedRun, Since
from pytest_vperf.results.record import ClaimRecord, Reading, unmeasured
from pytest_vperf.run.result import failing

#: Texts that would do something if any part of the page took them for markup, script, a style or an address.
ATTACKS = (
    "</script><script>document.title='attacked'</script>",
    "<img src=x onerror=\"document.title='attacked'\">",
    "<!--<script>",
    "]]></style><svg onload=document.title='attacked'>",
    "'\"><iframe src=https://example.org></iframe>",
    "javascript:document.title='attacked'",
    "{{ 7 * 7 }} {% include '/etc/passwd' %} ${7*7}",
    "\x1b]0;attacked\x07 \u202eesrever\u202c \ud800 \u2028 &amp; &lt;b&gt;",
)


def claim(name: str, verdict: str = "holds", **values: Any) -> ClaimRecord:
    """A record that is like one of a run in what is not given."""
    nodeid = f"tests/claims/test_{name.partition('.')[0]}.py::test_it[{name}]"
    found = unmeasured(
        name,
        "",
        target="",
        nodeid=nodeid,
        started_at="2026-01-01T10:00:00+00:00",
        budget=60,
        seed=1,
    )
    return cast("ClaimRecord", {**found, "verdict": verdict, **values})


def _observed(
    values: list[float], arms: str = "a", unit: str = "ms", warm_up: int = 0, **more: Any
) -> list[Any]:
    third = max(1, len(values) // 3)
    return [
        {
            "order": k,
            "session": min(3, 1 + k // third) if arms == "a" else 1,
            "at": 1.5 * k,
            "arm": arms[k % len(arms)],
            "value": value,
            "unit": unit,
            "warm_up": k < warm_up,
            "parts": {},
            "beside": {},
            **more,
        }
        for k, value in enumerate(values)
    ]


def limited(name: str, verdict: str, level: float, limit: float, *, n: int = 30) -> ClaimRecord:
    """A limit that was judged in three sessions, of which the second one was disturbed."""
    chance = random.Random(name)
    values = [chance.gauss(level, level / 30) for _ in range(n)]
    third = max(1, n // 3)
    return claim(
        name,
        verdict,
        unit="ms",
        samples=values[2:],
        n=n - 2,
        estimate=level,
        interval=[0.98 * level, 1.02 * level],
        confidence=0.99,
        threshold=limit,
        criterion=f"≤ {limit:g} ms",
        statistic="median",
        summary="a pod starts quickly",
        gap=level - limit,
        gap_percent=100 * (level - limit) / limit,
        target="pod tcg qboot",
        source='Pod paper, section 4: "less than 400 ms"',
        observations=_observed(values, warm_up=2),
        sessions=[
            {
                "n": k,
                "started_at": f"2026-01-01T10:0{k}:00+00:00",
                "began_at_s": 60.0 * k,
                "duration_s": 20.0,
                "samples": third,
            }
            for k in (1, 2, 3)
        ],
        noise={
            "settings": {},
            "sessions": [
                {"steal": 0.0, "pressure": {"cpu": {"some": 0.01}}, "load": [0.1, 0.1, 0.1]},
                {"steal": 0.05, "pressure": {"cpu": {"some": 0.3}}, "load": [2.0, 1.0, 1.0]},
                {"steal": 0.0},
            ],
        },
        phases={"qemu": level / 4, "kernel": level / 2, "init": level / 4},
        targets=[
            {
                "kind": "pod",
                "name": "pod 1",
                "arms": ["a"],
                "details": {"qemu": "7.2.15", "accelerator": "tcg"},
            }
        ],
        hardware={
            "profile": "any",
            "location": "thresholds/any.yaml:12",
            "matches": True,
            "mismatches": [],
        },
        reason="the interval is beyond the limit" if verdict == "refuted" else "",
        duration_s=61.0,
    )


def compared(
    name: str, verdict: str, ratio: float, *, sides: bool = True, n: int = 16
) -> ClaimRecord:
    """A gate's comparison of head with base, or of two targets."""
    chance = random.Random(name)
    values = [chance.gauss(100 * (ratio if k % 2 == 0 else 1), 3) for k in range(2 * n)]

    def arm(value: float) -> dict[str, Any]:
        return {
            "estimate": value,
            "interval": [value - 1, value + 1],
            "confidence": 0.99,
            "unit": "ms",
            "n": n,
            "phases": {"create": value / 2, "start": value / 2},
        }

    return claim(
        name,
        verdict,
        sides={"a": "head", "b": "base"} if sides else {},
        arms={"a": arm(100 * ratio), "b": arm(100)},
        estimate=ratio,
        interval=[ratio - 0.02, ratio + 0.02],
        confidence=0.98,
        better="lower",
        n=n,
        statistic="ratio",
        plan={"tolerance": 0.05},
        threshold=1.05,
        criterion="no worse by more than 5 %",
        target="container runsc / container runc",
        samples=[a / b for a, b in zip(values[::2], values[1::2], strict=True)],
        observations=_observed(values, "ab"),
        sessions=[
            {
                "n": 1,
                "started_at": "2026-01-01T10:00:00+00:00",
                "began_at_s": 0.0,
                "duration_s": 20.0,
                "samples": 2 * n,
            }
        ],
        reason="head is slower" if verdict == "refuted" else "",
    )


def everything() -> EndedRun:
    """A run with each kind of picture."""
    loads = [
        {
            "point": f"{asked} kpps",
            "asked": asked,
            "offered": asked,
            "carried": min(asked, 70.0),
            "n": 5,
            "left_out": 0,
            "busiest": "vhost-12 99 %",
        }
        for asked in (10.0, 30.0, 50.0, 70.0, 90.0, 110.0)
    ]
    saturated = claim(
        "saturation.vhost",
        unit="kpps",
        n=30,
        estimate=70.0,
        interval=[66.0, 73.0],
        statistic="knee",
        criterion="knee at 70 kpps ± 10 %",
        threshold=70.0,
        sweep={
            "shape": "plateau",
            "unit": "kpps",
            "knee": 70.0,
            "knee_interval": [66.0, 73.0],
            "growth": 0.01,
            "growth_interval": [-0.02, 0.03],
            "flat": [70.0, 90.0, 110.0],
            "bottleneck": "vhost-12",
            "loads": loads,
        },
    )
    shares = _observed([66.0 + k % 3 for k in range(20)], unit="%")
    for each in shares:
        each["beside"] = {
            "heavy": {"unit": "CPUs", "values": [each["value"] / 100]},
            "light": {"unit": "CPUs", "values": [1 - each["value"] / 100]},
        }
    shared = claim(
        "priority.shares",
        unit="%",
        n=20,
        estimate=67.0,
        interval=[66.0, 68.0],
        samples=[each["value"] for each in shares],
        observations=shares,
        threshold=66.0,
        criterion="66 % ± 5 %",
        statistic="median",
    )
    filled = filling()
    dense = claim(
        "density.pods",
        n=1,
        estimate=27.0,
        unit="",
        criterion="≥ 20",
        threshold=20.0,
        statistic="count",
        samples=[27.0],
    )
    filled["nodeid"] = dense["nodeid"]
    filled["curve"] = [
        Reading(
            n=k, at_s=2.0 * k, available=(20 << 30) - k * (218 << 20), group_used=k * (217 << 20)
        )
        for k in range(28)
    ]
    return EndedRun(
        claims=[
            limited("startup.pod.qboot", "holds", 376, 400),
            limited("startup.pod.seabios", "refuted", 520, 400),
            compared("start.runsc", "refuted", 1.19),
            compared("start.runc", "holds", 0.99),
            compared("start.against", "inconclusive", 1.03, sides=False),
            saturated,
            shared,
            dense,
            claim("memory.none", "not comparable", reason="no threshold on this hardware"),
            claim("startup.kvm", "not measured", reason="no /dev/kvm here"),
            claim("cpu.kvm", "not measured", reason="no /dev/kvm here"),
            claim("disk.xen", "not measured", reason="no Xen here"),
        ],
        answer="gate: 1 slower, 1 not slower (within 5 %)",
        word="refuted",
        status=1,
        failing=failing("measured"),
        started="2026-01-01T10:00:00+00:00",
        mark="ab12cd34",
        fingerprint={
            "cpu_model": "Some CPU",
            "logical_cpus": "2",
            "memory": "24 GiB",
            "kernel": "6.1.0",
        },
        sides={
            "head": {"runtime": {"is": "./runsc", "sha256": "ab" * 32}},
            "base": {"runtime": {"is": "runsc"}},
        },
        asked={"command": "pytest -m startup --hw=type1", "options": ["--hw=type1"]},
        profile={
            "asked": "type1",
            "named": "type1",
            "names": ["type1", "any"],
            "matches": False,
            "mismatches": ["2 CPUs, not 8"],
        },
        fillings=[filled],
        past={
            "startup.pod.qboot": {
                "unit": "ms",
                "runs": [
                    (
                        f"2025-12-{day:02}T10:00:00+00:00",
                        f"main {day}",
                        350.0 if day < 12 else 376.0,
                    )
                    for day in range(1, 25)
                ],
                "changes": [{"first": 11, "word": "slower"}],
            }
        },
        since=Since(
            "main 24, of 2025-12-24",
            [Difference("startup.pod.qboot", "350 ms", "376 ms", "+7.4 %")],
        ),
    )


def of_many(claims: int, samples: int) -> EndedRun:
    """A run of so many claims with so many samples each."""
    verdicts = ("holds", "holds", "holds", "refuted", "inconclusive")
    found = [
        limited(f"family{k % 12}.claim.number{k}", verdicts[k % 5], 300 + k % 200, 400, n=samples)
        for k in range(claims)
    ]
    return EndedRun(claims=found, answer="claims: many", word="refuted", status=1, mark="ab12")


def attacking() -> EndedRun:
    """A run in which every text that is not ours attacks the page."""

    def attacked(value: Any, number: int = 0) -> Any:
        if isinstance(value, str):
            return ATTACKS[(number + len(value)) % len(ATTACKS)] + value
        if isinstance(value, dict):
            return {
                key: own
                if key in ("verdict", "arm", "statistic", "sides", "unit", "better")
                else attacked(own, number + k)
                for k, (key, own) in enumerate(value.items())
            }
        if isinstance(value, list):
            return [attacked(own, number + k) for k, own in enumerate(value)]
        return value

    run = everything()
    hostile = [attacked(dict(each), k) for k, each in enumerate(run.claims)]
    filled = [attacked(dict(each)) for each in run.fillings]
    filled[0]["nodeid"] = next(each["nodeid"] for each in hostile if "density.pods" in each["name"])
    past = run.past["startup.pod.qboot"]
    return EndedRun(
        claims=hostile,
        answer=" ".join(ATTACKS),
        word=ATTACKS[0],
        status=1,
        started=ATTACKS[1],
        mark=ATTACKS[2],
        fingerprint={ATTACKS[k]: ATTACKS[-k] for k in range(len(ATTACKS))}
        | {"cpu_model": ATTACKS[0]},
        sides={ATTACKS[0]: {ATTACKS[1]: {"is": ATTACKS[4]}}},
        asked={"command": ATTACKS[0], "options": list(ATTACKS)},
        profile={"names": list(ATTACKS), "mismatches": list(ATTACKS)},
        fillings=filled,
        past={
            hostile[0]["name"]: {
                **past,
                "runs": [(ATTACKS[0], ATTACKS[1], 1.0), (ATTACKS[2], ATTACKS[3], 2.0)],
                "changes": [{"first": 1, "word": ATTACKS[1]}],
            }
        },
        since=Since(ATTACKS[0], [Difference(*ATTACKS[:4])]),
    )
