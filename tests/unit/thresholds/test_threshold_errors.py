"""Every way a threshold file can be wrong: what is said, exactly, and where."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_vperf.thresholds.profile import ThresholdError, load_profile, load_profiles

GOOD = """\
hardware:
  name: type9
  summary: a machine
  match: {cpu_model: E3-1240 v3}
claims:
  startup.pod.kvm:
    at_most: 400 ms
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, so that messages show the file's bare name."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(text: str | bytes, name: str = "type9.yaml") -> list[str]:
    """The lines of the error that loading a file with this content raises."""
    path = Path.cwd() / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ThresholdError) as caught:
        load_profile(path)
    return str(caught.value).splitlines()


DATE = '"2026-11-22"'
CALIBRATED = (
    f"{{date: {DATE}, figures: [371 ms], samples: [24], spread: 1 %, margin: 6 %, confidence: 99 %, "
    "next_runs: 20, machine: {cpu_model: x}, vperf: '0.1'}"
)


def claim(lines: str) -> str:
    """A good file whose claim has these lines instead."""
    return GOOD.replace(
        "    at_most: 400 ms\n", "".join(f"    {each}\n" for each in lines.split("\n"))
    )


def match(text: str) -> str:
    return GOOD.replace("{cpu_model: E3-1240 v3}", text)


def test_a_correct_file_is_accepted(here: Path) -> None:
    (here / "type9.yaml").write_text(GOOD)
    assert load_profile(here / "type9.yaml").name == "type9"


KEYS = {
    "misspelt key of a claim": (
        claim("at_mots: 400 ms"),
        "type9.yaml:7:5: claims.startup.pod.kvm.at_mots: there is no such key; did you mean 'at_most'?",
    ),
    "misspelt key of the file": (
        GOOD.replace("claims:", "claim:"),
        "type9.yaml:1:1: the key 'claims' is missing",
        "type9.yaml:5:1: claim: there is no such key; did you mean 'claims'?",
    ),
    "misspelt key of a match": (
        match("{cpu_modell: x}"),
        "type9.yaml:4:11: hardware.match.cpu_modell: there is no such key; did you mean 'cpu_model'?",
    ),
    "misspelt key of a ratio": (
        claim("ratio: {atmost: 1}"),
        "type9.yaml:7:13: claims.startup.pod.kvm.ratio.atmost: there is no such key; "
        "did you mean 'at_most'?",
    ),
    "misspelt key of a source": (
        claim("at_most: 4 ms\nsource: {document: d, publisched: {}}"),
        "type9.yaml:8:27: claims.startup.pod.kvm.source.publisched: there is no such key; "
        "did you mean 'published'?",
    ),
    "misspelt figure": (
        claim("at_most: 4 ms\nsource: {document: d, published: {mena: 3 ms}}"),
        "type9.yaml:8:39: claims.startup.pod.kvm.source.published.mena: "
        "is not the name of a figure behind a limit; did you mean 'mean'?",
    ),
    "figure that is no figure of a limit": (
        claim("at_most: 4 ms\nsource: {document: d, published: {jitter: 3 ms}}"),
        "type9.yaml:8:39: claims.startup.pod.kvm.source.published.jitter: is not the name of a figure "
        "behind a limit; they are min, max, mean, median, stddev and value, and p95, run_1 and such",
    ),
    "what is published beside a figure, without a unit": (
        claim("at_most: 4 ms\nsource: {document: d, also: {share: 0.9}}"),
        "type9.yaml:8:41: claims.startup.pod.kvm.source.also.share: 0.9 needs a unit, e.g. 400 ms",
    ),
    "key like no other": (
        claim("at_most: 4 ms\ncolour: red"),
        "type9.yaml:8:5: claims.startup.pod.kvm.colour: there is no such key; the keys are at_most, "
        "at_least, ratio, overhead, near, saturates, no_worse, unknown, statistic, unit, summary, needs, emulated, "
        "judge, source",
    ),
    "key twice": (
        claim("at_most: 400 ms\nat_most: 300 ms"),
        "type9.yaml:8:5: claims.startup.pod.kvm.at_most: "
        "the key 'at_most' is here twice, first in line 7",
    ),
    "claim twice": (
        GOOD + "  'startup.pod.kvm': {at_most: 3 ms}\n",
        "type9.yaml:8:3: claims.startup.pod.kvm: "
        "the key 'startup.pod.kvm' is here twice, first in line 6",
    ),
    "key that YAML reads as true": (
        GOOD.replace("startup.pod.kvm", "yes"),
        "type9.yaml:6:3: claims.yes: YAML reads 'yes' as true or false; as a text put it in quotes",
    ),
    "number as a key": (
        GOOD.replace("startup.pod.kvm", "12"),
        "type9.yaml:6:3: claims.12: a key must be a text; to use '12' put it in quotes",
    ),
    "mapping as a key": (
        GOOD + "  ? {a: b}\n  : c\n",
        "type9.yaml:8:5: claims: a key must be a text, not a mapping or a list",
    ),
    "claim with a capital": (
        GOOD.replace("startup.pod.kvm", "Startup Pod"),
        "type9.yaml:6:3: claims.'Startup Pod': a claim's name is lower-case words with dots "
        "between them, e.g. startup.pod.kvm.qboot",
    ),
    "claim of one word": (
        GOOD.replace("startup.pod.kvm", "startup"),
        "type9.yaml:6:3: claims.startup: a claim's name is lower-case words with dots "
        "between them, e.g. startup.pod.kvm.qboot",
    ),
    "claim with two stars": (
        GOOD.replace("startup.pod.kvm", "startup.*.*"),
        "type9.yaml:6:3: claims.startup.*.*: a claim's name may have one '*'",
    ),
    "stars that fit one name": (
        GOOD.replace("startup.pod.kvm", "startup.*.kvm") + "  startup.pod.*: {at_most: 4 ms}\n",
        "type9.yaml:8:3: claims.startup.pod.*: matches names that 'startup.*.kvm' matches too, "
        "so neither is more specific",
    ),
}

VALUES = {
    "no unit": ("400", "400 needs a unit, e.g. 400 ms"),
    "no unit, in quotes": ("'400'", "400 needs a unit, e.g. 400 ms"),
    "unknown unit": ("400 mss", "'mss' is not a unit; did you mean 'ms'?"),
    "unit in capitals": ("4 KIB", "'KIB' is not a unit; did you mean 'KiB'?"),
    "unit like no other": ("400 florins", "'florins' is not a unit"),
    "no number": ("fast", "'fast' is not a number with a unit, such as '400 ms'"),
    "zero": ("0 ms", "a limit must be more than 0, not 0 ms"),
    "negative": ("-5 ms", "a limit must be more than 0, not -5 ms"),
    "not a number": (".nan", "'.nan' is not a finite number"),
    "infinite": ("-.inf", "'-.inf' is not a finite number"),
    "infinite with a unit": ("1e400 ms", "inf is not a finite number"),
    "nan with a unit": ("nan ms", "'nan ms' is not a number with a unit, such as '400 ms'"),
    "true": ("yes", "YAML reads 'yes' as true or false; as a text put it in quotes"),
    "false": ("Off", "YAML reads 'Off' as true or false; as a text put it in quotes"),
    "nothing": ("", "has no value"),
    "null": ("~", "YAML reads '~' as nothing; as a text put it in quotes"),
    "date": ("2026-11-21", "YAML reads '2026-11-21' as a date; as a text put it in quotes"),
    "base 60": (
        "1:30",
        "YAML reads '1:30' as a number to the base 60; as a text put it in quotes",
    ),
    "octal": (
        "0400",
        "YAML reads '0400' as a number in another notation than the usual one; "
        "as a text put it in quotes",
    ),
    "list": ("[400 ms]", "must be a text, not a list"),
    "mapping": ("{value: 400 ms}", "must be a text, not a mapping"),
    "control character": (r'"4\e[31m ms"', r"'4\x1b[31m ms' has a control character in it"),
    "tag": (
        "!!python/object/apply:os.system [id]",
        "the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not allowed here: "
        "write the value itself",
    ),
    "harmless tag": (
        "!!str 400 ms",
        "the tag 'tag:yaml.org,2002:str' is not allowed here: write the value itself",
    ),
    "anchor": ("&limit 400 ms", "the anchor '&limit' is not allowed here: write the value itself"),
    "alias": ("*limit", "the alias '*limit' is not allowed here: write the value itself"),
}

CRITERIA = {
    "none": (
        claim("summary: s"),
        "type9.yaml:6:3: claims.startup.pod.kvm: "
        "needs one of at_most, at_least, ratio, overhead, near, saturates, no_worse or unknown",
    ),
    "two": (
        claim("at_most: 4 ms\nat_least: 3 ms"),
        "type9.yaml:8:5: claims.startup.pod.kvm.at_least: "
        "a claim has one criterion, and this has at_most and at_least",
    ),
    "empty range of ratios": (
        claim("ratio: {at_most: 1, at_least: 1.5}"),
        "type9.yaml:7:35: claims.startup.pod.kvm.ratio.at_least: is 1.5, and at_most is 1: the range is empty",
    ),
    "empty range of overheads": (
        claim("overhead: {at_least: 7 %, at_most: 7 %}"),
        "type9.yaml:7:26: claims.startup.pod.kvm.overhead.at_least: is '7 %', and at_most is '7 %': "
        "the range is empty",
    ),
    "ratio of no side": (
        claim("ratio: {}"),
        "type9.yaml:7:5: claims.startup.pod.kvm.ratio: needs at_most, at_least or both",
    ),
    "ratio zero": (
        claim("ratio: {at_most: 0}"),
        "type9.yaml:7:22: claims.startup.pod.kvm.ratio.at_most: a ratio must be more than 0, not 0",
    ),
    "ratio with a unit": (
        claim("ratio: {at_most: 2 %}"),
        "type9.yaml:7:22: claims.startup.pod.kvm.ratio.at_most: "
        "a ratio must be a number without unit and quotes, not '2 %'",
    ),
    "ratio that is no mapping": (
        claim("ratio: 1"),
        "type9.yaml:7:12: claims.startup.pod.kvm.ratio: must be a mapping of keys, not a number",
    ),
    "overhead without unit": (
        claim("overhead: {at_most: 2}"),
        "type9.yaml:7:25: claims.startup.pod.kvm.overhead.at_most: 2 needs a unit, e.g. 2 %",
    ),
    "overhead in ms": (
        claim("overhead: {at_most: 2 ms}"),
        "type9.yaml:7:25: claims.startup.pod.kvm.overhead.at_most: "
        "an overhead is written in per cent, e.g. 2 %, not as 2 ms",
    ),
    "overhead of less than nothing left": (
        claim("overhead: {at_least: -100 %}"),
        "type9.yaml:7:26: claims.startup.pod.kvm.overhead.at_least: "
        "an overhead must be more than -100 %, not -100 %",
    ),
    "unknown statistic": (
        claim("at_most: 4 ms\nstatistic: medain"),
        "type9.yaml:8:16: claims.startup.pod.kvm.statistic: "
        "must be median, or a percentile such as p95 or p99.9, not 'medain'; did you mean 'median'?",
    ),
    "mean": (
        claim("at_most: 4 ms\nstatistic: mean"),
        "type9.yaml:8:16: claims.startup.pod.kvm.statistic: a mean cannot be decided with a known error "
        "rate, since noise has heavy tails: use median; the published mean stays in source.published",
    ),
    "percentile 100": (
        claim("at_most: 4 ms\nstatistic: p100"),
        "type9.yaml:8:16: claims.startup.pod.kvm.statistic: "
        "must be median, or a percentile such as p95 or p99.9, not 'p100'",
    ),
    "percentile without a p": (
        claim("at_most: 4 ms\nstatistic: 95"),
        "type9.yaml:8:16: claims.startup.pod.kvm.statistic: "
        "must be median, or a percentile such as p95 or p99.9, not a number",
    ),
    "statistic of a value that is near": (
        claim("near: {value: 4 ms}\nstatistic: p95"),
        "type9.yaml:8:5: claims.startup.pod.kvm.statistic: "
        "belongs to at_most and at_least, not to near",
    ),
    "near nothing": (
        claim("near: {tolerance: 5 %}"),
        "type9.yaml:7:5: claims.startup.pod.kvm.near: the key 'value' is missing",
    ),
    "near that is no mapping": (
        claim("near: 0.75"),
        "type9.yaml:7:11: claims.startup.pod.kvm.near: must be a mapping of keys, not a number",
    ),
    "near zero": (
        claim("near: {value: 0}"),
        "type9.yaml:7:19: claims.startup.pod.kvm.near.value: a ratio must be more than 0, not 0",
    ),
    "near a negative quantity": (
        claim("near: {value: -3 ms}"),
        "type9.yaml:7:19: claims.startup.pod.kvm.near.value: a limit must be more than 0, not -3 ms",
    ),
    "near a number in quotes": (
        claim("near: {value: '0.75'}"),
        "type9.yaml:7:19: claims.startup.pod.kvm.near.value: 0.75 needs a unit, e.g. 400 ms",
    ),
    "misspelt key of near": (
        claim("near: {value: 0.75, tolerence: 5 %}"),
        "type9.yaml:7:25: claims.startup.pod.kvm.near.tolerence: there is no such key; "
        "did you mean 'tolerance'?",
    ),
    "near in another dimension than was published": (
        claim("near: {value: 4 ms}\nsource: {document: d, published: {min: 3 MB}}"),
        "type9.yaml:8:44: claims.startup.pod.kvm.source.published.min: "
        "3 MB ([information]) is of another dimension than the limit 4 ms ([time])",
    ),
    "no worse without a direction": (
        claim("no_worse: lower_is_beter"),
        "type9.yaml:7:15: claims.startup.pod.kvm.no_worse: must be lower_is_better or "
        "higher_is_better, not 'lower_is_beter'; did you mean 'lower_is_better'?",
    ),
    "no worse by a percentage": (
        claim("no_worse: 2 %"),
        "type9.yaml:7:15: claims.startup.pod.kvm.no_worse: must be lower_is_better or "
        "higher_is_better, not '2 %'",
    ),
    "statistic of a ratio": (
        claim("ratio: {at_most: 1}\nstatistic: median"),
        "type9.yaml:8:5: claims.startup.pod.kvm.statistic: "
        "belongs to at_most and at_least, not to ratio",
    ),
    "unknown without a unit": (
        claim("unknown: nobody measured it"),
        "type9.yaml:6:3: claims.startup.pod.kvm: "
        "the key 'unit' is missing: the unit that the metric is reported in",
    ),
    "unknown with an unknown unit": (
        claim("unknown: nobody measured it\nunit: msc"),
        "type9.yaml:8:11: claims.startup.pod.kvm.unit: 'msc' is not a unit; did you mean 'ms'?",
    ),
    "unit beside a limit": (
        claim("at_most: 4 ms\nunit: ms"),
        "type9.yaml:8:5: claims.startup.pod.kvm.unit: "
        "belongs to unknown; the unit of at_most is in its value",
    ),
    "published in another dimension": (
        claim("at_most: 400 ms\nsource: {document: d, published: {min: 3 MB, max: 4 s}}"),
        "type9.yaml:8:44: claims.startup.pod.kvm.source.published.min: "
        "3 MB ([information]) is of another dimension than the limit 400 ms ([time])",
    ),
    "published in another dimension than an unknown": (
        claim("unknown: x\nunit: ms\nsource: {document: d, published: {min: 3 MB}}"),
        "type9.yaml:9:44: claims.startup.pod.kvm.source.published.min: "
        "3 MB ([information]) is of another dimension than the unit ms ([time])",
    ),
    "section without quotes": (
        claim("at_most: 400 ms\nsource: {document: d, section: 1.1}"),
        "type9.yaml:8:36: claims.startup.pod.kvm.source.section: "
        'must be a text: put it in quotes, "1.1"',
    ),
    "source without a document": (
        claim("at_most: 400 ms\nsource: {section: '1'}"),
        "type9.yaml:8:5: claims.startup.pod.kvm.source: the key 'document' is missing",
    ),
    "calibrated beside a document": (
        claim(f"at_most: 400 ms\nsource: {{document: d, calibrated: {CALIBRATED}}}"),
        "type9.yaml:8:14: claims.startup.pod.kvm.source.document: "
        "belongs to a published figure, and this limit is calibrated",
    ),
    "calibrated without a limit": (
        claim(f"unknown: x\nunit: ms\nsource: {{calibrated: {CALIBRATED}}}"),
        "type9.yaml:9:14: claims.startup.pod.kvm.source.calibrated: belongs to at_most and at_least",
    ),
    "calibrated in another dimension": (
        claim(f"at_most: 400 MB\nsource: {{calibrated: {CALIBRATED}}}"),
        "type9.yaml:8:57: claims.startup.pod.kvm.source.calibrated.figures.0: "
        "371 ms is of another dimension than the limit 400 MB",
    ),
    "figures and samples of other runs": (
        claim(
            "at_most: 400 ms\nsource: {calibrated: "
            f"{CALIBRATED.replace('samples: [24]', 'samples: [24, 24]')}}}"
        ),
        "type9.yaml:8:66: claims.startup.pod.kvm.source.calibrated.samples: "
        "has 2 runs, and figures has 1",
    ),
    "a date that YAML reads as one": (
        claim(f"at_most: 400 ms\nsource: {{calibrated: {CALIBRATED.replace(DATE, DATE[1:-1])}}}"),
        "type9.yaml:8:33: claims.startup.pod.kvm.source.calibrated.date: "
        "YAML reads '2026-11-22' as a date; as a text put it in quotes",
    ),
    "empty text": (
        claim("at_most: 400 ms\nsummary: ''"),
        "type9.yaml:8:14: claims.startup.pod.kvm.summary: must not be empty",
    ),
}

JUDGE = {
    "tolerance beside a limit": (
        claim("at_most: 400 ms\ntolerance: 2 %"),
        "type9.yaml:8:5: claims.startup.pod.kvm.tolerance: a tolerance belongs in near or saturates, or in judge "
        "with no_worse; the figure of any other criterion is not widened",
    ),
    "tolerance in a ratio": (
        claim("ratio: {at_most: 1, tolerance: 2 %}"),
        "type9.yaml:7:25: claims.startup.pod.kvm.ratio.tolerance: a tolerance belongs in near or saturates, or in "
        "judge with no_worse; the figure of any other criterion is not widened",
    ),
    **{
        f"tolerance in the judge of {criterion.partition(':')[0]}": (
            claim(f"{criterion}\njudge: {{tolerance: 2 %}}"),
            "type9.yaml:8:13: claims.startup.pod.kvm.judge.tolerance: belongs to near, saturates and no_worse, "
            f"and to limits in a gate; the figure of {criterion.partition(':')[0]} is not widened",
        )
        for criterion in (
            "ratio: {at_most: 1}",
            "overhead: {at_most: 1 %}",
        )
    },
    "two tolerances": (
        claim("near: {value: 0.5, tolerance: 5 %}\njudge: {tolerance: 2 %}"),
        "type9.yaml:8:13: claims.startup.pod.kvm.judge.tolerance: "
        "near already has a tolerance: give one of them",
    ),
    "two tolerances of a plateau": (
        claim("saturates: {near: 400 ms, tolerance: 2 %}\njudge: {tolerance: 2 %}"),
        "type9.yaml:8:13: claims.startup.pod.kvm.judge.tolerance: "
        "saturates already has a tolerance: give one of them",
    ),
    "a plateau without a level": (
        claim("saturates: {tolerance: 2 %}"),
        "type9.yaml:7:5: claims.startup.pod.kvm.saturates: the key 'near' is missing",
    ),
    "setting outside of judge": (
        claim("at_most: 400 ms\nalpha: 0.001"),
        "type9.yaml:8:5: claims.startup.pod.kvm.alpha: belongs in judge, as in judge: {alpha: …}",
    ),
    "misspelt setting": (
        claim("at_most: 400 ms\njudge: {buget: 60 s}"),
        "type9.yaml:8:13: claims.startup.pod.kvm.judge.buget: there is no such key; "
        "did you mean 'budget'?",
    ),
    "misspelt setting of the file": (
        GOOD + "judge: {alhpa: 0.1}\n",
        "type9.yaml:8:9: judge.alhpa: there is no such key; did you mean 'alpha'?",
    ),
    "judge that is no mapping": (
        claim("at_most: 400 ms\njudge: 2 %"),
        "type9.yaml:8:12: claims.startup.pod.kvm.judge: must be a mapping of keys, not a text",
    ),
    **{
        f"{key} {value}": (
            claim(f"no_worse: lower_is_better\njudge: {{{key}: {value}}}"),
            f"type9.yaml:8:{15 + len(key)}: claims.startup.pod.kvm.judge.{key}: {message}",
        )
        for key, value, message in (
            (
                "tolerance",
                "2",
                "a tolerance is more than 0 % and less than 100 %, such as '2 %' or 0.02, not 2",
            ),
            (
                "tolerance",
                "0 %",
                "a tolerance is more than 0 % and less than 100 %, such as '2 %' or 0.02, not '0 %'",
            ),
            ("tolerance", "2 ms", "'2 ms' is not a percentage or ratio such as '2 %' or 0.02"),
            (
                "tolerance",
                "small",
                "'small' is not a percentage or ratio such as '2 %' or 0.02: "
                "'small' is not a number with a unit, such as '400 ms'",
            ),
            (
                "alpha",
                "0.5",
                "the chance of a wrong verdict is from 0.000001 to 0.2, such as 0.01, not 0.5",
            ),
            (
                "beta",
                "0",
                "the chance of a wrong verdict is from 0.000001 to 0.2, such as 0.01, not 0",
            ),
            ("alpha", "[0.01]", "[0.01] is not a chance such as 0.01"),
            ("pairs", "3", "must be a whole number from 4 to 1000000, not 3"),
            ("pairs", "64.5", "must be a whole number from 4 to 1000000, not 64.5"),
            ("pairs", "many", "must be a whole number from 4 to 1000000, not 'many'"),
            ("budget", "60", "60 needs a unit, e.g. 60 s"),
            ("budget", "0 s", "'0 s' is not more than 0"),
            (
                "budget",
                "3 MB",
                "'3 MB' is not a time such as '60 s' or '2 min': "
                "MB ([information]) cannot be compared with s ([time])",
            ),
        )
    },
}

HARDWARE = {
    "memory in ms": (
        match("{memory: '>= 15 ms'}"),
        "type9.yaml:4:19: hardware.match.memory: '>= 15 ms' is in ms, "
        "but must be in a unit such as GiB, e.g. '>= 15 GiB'",
    ),
    "memory in per cent": (
        match("{memory: '>= 15 %'}"),
        "type9.yaml:4:19: hardware.match.memory: '>= 15 %' is in %, "
        "but must be in a unit such as GiB, e.g. '>= 15 GiB'",
    ),
    "memory without unit": (
        match("{memory: 16}"),
        "type9.yaml:4:19: hardware.match.memory: 16 needs a unit, e.g. '>= 15 GiB'",
    ),
    "memory that no machine has": (
        match("{memory: 16 GiB}"),
        "type9.yaml:4:19: hardware.match.memory: '16 GiB' fits no machine, as the kernel has less "
        "than what is installed; write a comparison, e.g. '>= 15 GiB' or '15 GiB .. 17 GiB'",
    ),
    "memory from much to little": (
        match("{memory: 17 GiB .. 15 GiB}"),
        "type9.yaml:4:19: hardware.match.memory: '17 GiB .. 15 GiB' ends below its beginning",
    ),
    "no processor": (
        match("{logical_cpus: 0}"),
        "type9.yaml:4:25: hardware.match.logical_cpus: must be a whole number from 1 on, not 0",
    ),
    "processors in GiB": (
        match("{logical_cpus: 8 GiB}"),
        "type9.yaml:4:25: hardware.match.logical_cpus: '8 GiB' is in GiB, "
        "but must be a plain number, e.g. '8'",
    ),
    "processors in words": (
        match("{logical_cpus: many}"),
        "type9.yaml:4:25: hardware.match.logical_cpus: 'many' is not a comparison such as '8'",
    ),
    "kernel without quotes": (
        match("{kernel: 6.1}"),
        'type9.yaml:4:19: hardware.match.kernel: must be a text: put it in quotes, "6.1"',
    ),
    "empty match": (
        match("{}"),
        "type9.yaml:4:10: hardware.match: is empty, which fits every machine; "
        "only the profile 'any' does",
    ),
    "another name": (
        GOOD.replace("type9", "typo9"),
        "type9.yaml:2:9: hardware.name: is 'typo9', but the file is type9.yaml: "
        "name one after the other",
    ),
    "a name with capitals": (
        GOOD.replace("type9", "Type_9"),
        "type9.yaml:2:9: hardware.name: 'Type_9' is not a profile's name: "
        "lower-case letters, digits and '-'",
        "type9.yaml:2:9: hardware.name: is 'Type_9', but the file is type9.yaml: "
        "name one after the other",
    ),
    "no hardware": (
        "claims: {}\n",
        "type9.yaml:1:1: the key 'hardware' is missing",
    ),
}

FORM = {
    "empty": ("", "type9.yaml: the file is empty"),
    "only a comment": ("# nothing\n", "type9.yaml: the file is empty"),
    "list": ("- a\n- b\n", "type9.yaml:1:1: must be a mapping of keys, not a list"),
    "text": ("just a text", "type9.yaml:1:1: must be a mapping of keys, not a text"),
    "two documents": (
        GOOD + "---\na: b\n",
        "type9.yaml:8:1: a second document begins; a file holds one profile",
    ),
    "merge key": (
        GOOD + "  <<: {cpu.time: {at_most: 4 ms}}\n",
        "type9.yaml:8:3: claims.'<<': the merge key '<<' is not allowed here: write the value itself",
    ),
    "second colon": (
        GOOD.replace("a machine", "a machine: big"),
        "type9.yaml:3:21: this is not YAML: a second ': ' in one line; "
        "a text that has ': ' in it is put in quotes",
    ),
    "tab": (
        GOOD.replace("    at_most", "\tat_most"),
        r"type9.yaml:7:1: this is not YAML: found character '\t' that cannot start any token",
    ),
    "bracket left open": (
        match("{cpu_model: x"),
        "type9.yaml:5:7: this is not YAML: expected ',' or '}', but got ':'",
    ),
    "UTF-16": (GOOD.encode("utf-16"), "type9.yaml:1:1: the file is not UTF-8"),
    "Latin-1": (
        GOOD.replace("a machine", "ein gr\u00fcner").encode("latin-1"),
        "type9.yaml:3:18: the file is not UTF-8",
    ),
    "NUL": (
        GOOD.replace("a machine", "a\0b"),
        "type9.yaml:3:13: the character U+0000 is not allowed in a file",
    ),
    "escape": (
        GOOD.replace("a machine", "a\x1b[31m"),
        "type9.yaml:3:13: the character U+001B is not allowed in a file",
    ),
    "character out of range": (
        '"\\UFFFFFFFF": 3\n',
        "type9.yaml: this is not YAML: a character's number is out of range",
    ),
    "YAML 9": (
        "%YAML 9.1\n---\na: 1\n",
        "type9.yaml:1:1: this is not YAML: "
        "found incompatible YAML document (version 1.* is required)",
    ),
}


WRONG = {**KEYS, **CRITERIA, **JUDGE, **HARDWARE, **FORM}


@pytest.mark.parametrize("case", WRONG.values(), ids=list(WRONG))
@pytest.mark.usefixtures("here")
def test_errors_name_the_fault_and_its_line(case: tuple[str | bytes, str]) -> None:
    content, *lines = case
    assert problems(content) == lines


@pytest.mark.parametrize("case", VALUES.values(), ids=list(VALUES))
@pytest.mark.usefixtures("here")
def test_errors_describe_a_wrong_limit(case: tuple[str, str]) -> None:
    value, message = case
    column = 14 if value else 13  # of what is not there, the place behind the key
    assert problems(claim(f"at_most: {value}".rstrip())) == [
        f"type9.yaml:7:{column}: claims.startup.pod.kvm.at_most: {message}"
    ]


@pytest.mark.usefixtures("here")
def test_all_errors_are_reported_at_once_in_order() -> None:
    content = """\
hardware:
  name: other
  summary: no
  match: {memory: '>= 1 s', cpus: 8}
claims:
  startup.pod:
    at_most: 400
  Cpu: {at_least: 3 MB/s}
  cpu.time:
    at_most: 3 s
    at_most: 4 s
    source: {document: d, section: 1, published: {max: 4 GB}}
  disk.rate:
    ratio: {atmost: 1}
    overhead: {at_most: 3 %}
"""
    assert [line.split(": ")[0] + ": " + line.split(": ")[1] for line in problems(content)] == [
        "type9.yaml:2:9: hardware.name",
        "type9.yaml:3:12: hardware.summary",
        "type9.yaml:4:19: hardware.match.memory",
        "type9.yaml:4:29: hardware.match.cpus",
        "type9.yaml:7:14: claims.startup.pod.at_most",
        "type9.yaml:8:3: claims.Cpu",
        "type9.yaml:11:5: claims.cpu.time.at_most",
        "type9.yaml:12:36: claims.cpu.time.source.section",
        "type9.yaml:12:56: claims.cpu.time.source.published.max",
        "type9.yaml:14:13: claims.disk.rate.ratio.atmost",
        "type9.yaml:15:5: claims.disk.rate.overhead",
    ]


@pytest.mark.usefixtures("here")
def test_very_many_problems_are_counted() -> None:
    lines = problems("".join(f"key{i}: 1\n" for i in range(200)))
    assert len(lines) == 51
    assert lines[-1] == "… and 152 more problems"


@pytest.mark.usefixtures("here")
def test_the_profile_any_names_no_machine() -> None:
    content = GOOD.replace("type9", "any")
    assert problems(content, "any.yaml") == [
        "any.yaml:4:10: hardware.match: must be {}: the profile 'any' fits every machine",
    ]


@pytest.mark.usefixtures("here")
def test_no_profile_is_called_auto() -> None:
    assert problems(GOOD.replace("type9", "auto"), "auto.yaml") == [
        "auto.yaml:2:9: hardware.name: "
        "'auto' is what --hw=auto means, so no profile can have this name"
    ]


def test_an_unreadable_file_is_reported(here: Path) -> None:
    (here / "folder.yaml").mkdir()
    os.mkfifo(here / "pipe.yaml")
    (here / "endless.yaml").symlink_to("/dev/zero")
    (here / "circle.yaml").symlink_to("circle.yaml")
    (here / "nowhere.yaml").symlink_to("nothing")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(here / "socket.yaml"))
    for name, reason in {
        "folder": "it is a folder",
        "pipe": "it is not a regular file",
        "endless": "it is not a regular file",
        "circle": "Too many levels of symbolic links",
        "nowhere": "there is no such file",
        "missing": "there is no such file",
        "socket": "No such device or address",
    }.items():
        with pytest.raises(ThresholdError) as caught:
            load_profile(here / f"{name}.yaml")
        assert str(caught.value) == f"{name}.yaml: cannot be read: {reason}"


def test_a_file_without_read_permission_is_reported(here: Path) -> None:
    path = here / "type9.yaml"
    path.write_text(GOOD)
    path.chmod(0)
    here.chmod(0o755)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)  # root may read everything
    try:
        with pytest.raises(ThresholdError) as caught:
            load_profile(path)
    finally:
        os.seteuid(was)
    assert str(caught.value).endswith("type9.yaml: cannot be read: Permission denied")


@pytest.mark.usefixtures("here")
def test_a_too_large_file_is_refused() -> None:
    assert problems("#" * ((1 << 20) + 1)) == [
        "type9.yaml: is larger than 1 MiB; no threshold file is"
    ]
    assert problems("#" * (1 << 20)) == ["type9.yaml: the file is empty"]


BOMBS = {
    "aliases": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n"
            for i in range(9)
        ),
        "the anchor '&a' is not allowed here: write the value itself",
    ),
    "an alias of itself": (
        "&a [*a]",
        "the anchor '&a' is not allowed here: write the value itself",
    ),
    "lists": ("[" * 500_000, "values are nested more than 20 deep"),
    "mappings": ("{a: " * 200_000, "values are nested more than 20 deep"),
    "lists in blocks": ("- " * 500_000, "values are nested more than 20 deep"),
    "keys in keys": ("? " * 500_000, "a key must be a text, not a mapping or a list"),
    "values": ("[" + "a," * 500_000, "the file has too many values; no threshold file has"),
}


@pytest.mark.parametrize("case", BOMBS.values(), ids=list(BOMBS))
@pytest.mark.usefixtures("here")
def test_a_yaml_bomb_is_refused_at_once(case: tuple[str, str]) -> None:
    content, message = case
    began = time.process_time()
    lines = problems(content)
    assert len(lines) == 1
    assert lines[0].endswith(message)
    assert time.process_time() - began < 30, "not a measurement: it must not take for ever"


@pytest.mark.usefixtures("here")
def test_nothing_in_a_file_is_run() -> None:
    content = claim(f"at_most: !!python/object/apply:os.mkdir ['{Path.cwd() / 'run'}']")
    assert "python/object/apply:os.mkdir" in problems(content)[0]
    assert not Path("run").exists()


@settings(max_examples=examples(200))
@given(st.binary(max_size=60), st.integers(0, len(GOOD)), st.integers(0, 30))
@example(b"\xed\xa0\x80", 3, 0)
@example(b"%TAG ! x:\n", 0, 0)
@example(b"a.b: {}\n", 0, 30)
def test_any_damage_gives_a_profile_or_lines(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, at: int, cut: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "type9.yaml"
    path.write_bytes(GOOD[:at].encode() + damage + GOOD[at + cut :].encode())
    try:
        load_profile(path)
    except ThresholdError as error:
        text = str(error)
        assert text
        assert all(line.startswith((f"{path}:", "… and ")) for line in text.split("\n"))


def test_a_folder_reports_all_its_files(here: Path) -> None:
    folder = here / "thresholds"
    folder.mkdir()
    (folder / "one.yaml").write_text(GOOD)
    (folder / "two.yaml").write_text("")
    (folder / "three.yml").write_text(GOOD)
    (folder / ".hidden.yaml").write_text("")
    (folder / "README.md").write_text("not ours")
    with pytest.raises(ThresholdError) as caught:
        load_profiles([folder])
    assert str(caught.value).splitlines() == [
        "thresholds/one.yaml:2:9: hardware.name: is 'type9', but the file is one.yaml: "
        "name one after the other",
        "thresholds/three.yml: a threshold file's name ends in .yaml, not .yml",
        "thresholds/two.yaml: the file is empty",
    ]


def test_a_path_that_is_not_a_folder_is_reported(here: Path) -> None:
    (here / "thresholds").write_text("")
    with pytest.raises(ThresholdError) as caught:
        load_profiles([here / "thresholds"])
    assert str(caught.value) == "thresholds: cannot be read: Not a directory"
