"""Threshold files that are right: the shipped ones, figure by figure, and what is made of each key."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.quantity import Quantity
from pytest_vperf.thresholds.criterion import (
    Between,
    Limit,
    Near,
    NearLimit,
    NoWorse,
    Ratio,
    Saturates,
    Unknown,
)
from pytest_vperf.thresholds.judge import Setting
from pytest_vperf.thresholds.profile import (
    HardwareProfile,
    ThresholdError,
    json_schema,
    load_profile,
    load_profiles,
    shipped_folder,
)

SHIPPED = Path(__file__).parents[3] / "thresholds"
FILES = sorted(SHIPPED.glob("*.yaml"))

#: Limit, min, max and mean in ms, as published in 000_eb205acbe1da05a6.txt, sections 1.1 and 1.2.
PUBLISHED = {
    "type1": {
        "startup.pod.kvm.qboot": (400, 352, 391, 376),
        "startup.pod.kvm.seabios": (719, 685, 725, 709),
        "startup.pod.tcg.qboot": (1381, 1348, 1380, 1367),
        "startup.pod.tcg.seabios": (1805, 1773, 1809, 1787),
        "startup.pod.xen": (2474, 2426, 2486, 2449),
        "replace.pod.kvm.qboot": (160.8, 128, 171, 150),
    },
    "type3": {
        "startup.pod.kvm.qboot": (544.5, 469, 571, 519),
        "startup.pod.kvm.seabios": (950, 821, 961, 915),
        "startup.pod.tcg.qboot": (1921, 1773, 2006, 1862),
        "startup.pod.tcg.seabios": (2364, 2188, 2459, 2296),
        "startup.pod.xen": (3313, 3171, 3345, 3269),
        "replace.pod.kvm.qboot": (179.3, 163, 184, 174),
    },
}

#: Faster and slower published mean in ms, on type1 and type3.
ORDERS = {
    "startup.order.kvm.qboot_before_seabios": [(376, 709), (519, 915)],
    "startup.order.tcg.qboot_before_seabios": [(1367, 1787), (1862, 2296)],
    "startup.order.kvm_before_tcg.qboot": [(376, 1367), (519, 1862)],
    "startup.order.kvm_before_tcg.seabios": [(709, 1787), (915, 2296)],
    "startup.order.tcg_before_xen": [(1787, 2449), (2296, 3269)],
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_shipped_file_is_valid(path: Path) -> None:
    profile = load_profile(path)
    assert profile.name == path.stem
    jsonschema.validate(yaml.safe_load(path.read_text()), json_schema())
    for claim in profile.claims.values():
        assert claim.summary, f"{claim.name} says nothing"
        assert claim.source or isinstance(claim.criterion, Unknown), f"{claim.name} has no source"


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_figures_are_copied_exactly(name: str) -> None:
    claims = load_profile(SHIPPED / f"{name}.yaml").claims
    for claim, (limit, least, most, mean) in PUBLISHED[name].items():
        threshold = claims[claim]
        assert threshold.criterion == Limit("at_most", Quantity(limit, "ms"), "median")
        assert threshold.profile == name
        assert threshold.source is not None
        assert threshold.source.document == "000_eb205acbe1da05a6.txt"
        assert threshold.source.section == ("1.2" if claim.startswith("replace") else "1.1")
        assert threshold.source.written == {
            "min": f"{least} ms",
            "max": f"{most} ms",
            "mean": f"{mean} ms",
        }
        assert threshold.source.published == {
            "min": Quantity(least, "ms"),
            "max": Quantity(most, "ms"),
            "mean": Quantity(mean, "ms"),
        }
        assert threshold.source.rule


def test_the_orderings_need_no_machine() -> None:
    claims = load_profile(SHIPPED / "any.yaml").claims
    for claim, pairs in ORDERS.items():
        threshold = claims[claim]
        assert threshold.criterion == Ratio("at_most", 1)
        assert threshold.source is not None
        means = [figure.value for figure in threshold.source.published.values()]
        assert means == [mean for pair in pairs for mean in pair]
        assert all(faster < slower for faster, slower in pairs)


@pytest.mark.parametrize("runtime", ["runc", "runsc", "crun", "kata", "kata-qemu", "my_runtime"])
def test_a_container_s_start_is_known_by_any_runtime_s_name(runtime: str) -> None:
    threshold = load_profile(SHIPPED / "any.yaml").find(f"startup.container.{runtime}")
    assert threshold is not None
    assert threshold.name == f"startup.container.{runtime}"
    assert threshold.criterion == Unknown(
        "no document publishes the start time of a container", "ms"
    )


def write(folder: Path, name: str, claims: str, match: str = "{cpu_model: x}") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(
        f"hardware:\n  name: {name}\n  summary: s\n  match: {match}\nclaims:\n{claims or '  {}'}\n"
    )
    return path


@pytest.mark.parametrize(
    ("text", "criterion", "shown"),
    [
        ("at_most: 400 ms", Limit("at_most", Quantity(400, "ms")), "≤ 400 ms"),
        (
            "at_least: 8.4 Gbit/s, statistic: median",
            Limit("at_least", Quantity(8.4, "Gbit/s"), "median"),
            "≥ 8.4 Gbit/s",
        ),
        (
            "at_most: 400 ms, statistic: p99.9",
            Limit("at_most", Quantity(400, "ms"), "p99.9"),
            "≤ 400 ms",
        ),
        ("near: {value: 0.75, tolerance: 5 %}", Near(0.75, 0.05), "near 0.75 ± 5 %"),
        ("near: {value: 3, tolerance: 0.025}", Near(3, 0.025), "near 3 ± 2.5 %"),
        ("near: {value: 0.75}", Near(0.75), "near 0.75"),
        (
            "near: {value: 70000 packet/s, tolerance: 5 %}",
            NearLimit(Quantity(70000, "packet/s"), 0.05),
            "near 70000 packet/s ± 5 %",
        ),
        ("near: {value: 95 %}", NearLimit(Quantity(95, "%")), "near 95 %"),
        (
            "saturates: {near: 70000 packet/s, tolerance: 5 %}",
            Saturates(Quantity(70000, "packet/s"), 0.05),
            "saturates near 70000 packet/s ± 5 %",
        ),
        (
            "saturates: {near: 8 Gbit/s}",
            Saturates(Quantity(8, "Gbit/s")),
            "saturates near 8 Gbit/s",
        ),
        ("no_worse: lower_is_better", NoWorse("lower"), "no worse"),
        ("no_worse: higher_is_better", NoWorse("higher"), "no worse"),
        ("at_least: 252 count", Limit("at_least", Quantity(252, "count")), "≥ 252 count"),
        ("ratio: {at_most: 1}", Ratio("at_most", 1), "ratio ≤ 1"),
        ("ratio: {at_least: 0.75}", Ratio("at_least", 0.75), "ratio ≥ 0.75"),
        ("ratio: {at_least: 0.5, at_most: 2}", Between(0.5, 2), "ratio 0.5 .. 2"),
        (
            "overhead: {at_least: 700 %, at_most: 3000 %}",
            Between(8, 31, overhead=True),
            "overhead 700 % .. 3000 %",
        ),
        ("overhead: {at_most: 2 %}", Ratio("at_most", 1.02, overhead=True), "overhead ≤ 2 %"),
        ("overhead: {at_most: 0%}", Ratio("at_most", 1, overhead=True), "overhead ≤ 0 %"),
        ("overhead: {at_least: -5 %}", Ratio("at_least", 0.95, overhead=True), "overhead ≥ -5 %"),
        ("unknown: a graph, unit: packet/s", Unknown("a graph", "packet/s"), "no published figure"),
    ],
)
def test_each_criterion_is_read(tmp_path: Path, text: str, criterion: object, shown: str) -> None:
    path = write(tmp_path, "one", f"  a.b: {{{text}}}")
    threshold = load_profile(path).claims["a.b"]
    assert threshold.criterion == criterion
    assert str(threshold.criterion) == shown


@pytest.mark.parametrize(
    ("statistic", "quantile"),
    [
        ("median", 0.5),
        ("p1", 0.01),
        ("p50", 0.5),
        ("p95", 0.95),
        ("p99.9", 0.999),
        ("p99.99", 0.9999),
    ],
)
def test_a_statistic_is_a_quantile(statistic: str, quantile: float) -> None:
    assert Limit("at_most", Quantity(1, "ms"), statistic).quantile == quantile


@given(st.integers(1, 99_999))
def test_every_percentile_is_a_quantile_between_its_neighbours(thousandths: int) -> None:
    text = f"p{thousandths / 1000:g}" if thousandths >= 1000 else "p1"
    assert 0 < Limit("at_most", Quantity(1, "ms"), text).quantile < 1


@pytest.mark.parametrize("statistic", ["mean", "p0", "p100", "p", "p9.", "95", "p95 ", "P95"])
def test_unknown_statistics_have_no_quantile(statistic: str) -> None:
    with pytest.raises(ValueError, match="is not median or a percentile such as p95"):
        _ = Limit("at_most", Quantity(1, "ms"), statistic).quantile


def test_no_worse_is_a_ratio_once_the_tolerance_is_known() -> None:
    lower, higher = NoWorse("lower", 0.25), NoWorse("higher", 0.25)
    assert (lower.side, lower.threshold) == ("at_most", 1.25)
    assert (higher.side, higher.threshold) == ("at_least", 0.8)
    assert str(lower) == str(higher) == "no worse by more than 25 %"
    with pytest.raises(ValueError, match="the tolerance of no_worse is not known yet"):
        _ = NoWorse("lower").threshold
    assert not NoWorse("lower").is_limit  # which is asked of a file's, before there is a plan


def test_a_claim_is_judged_as_it_says_and_else_as_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    claims = (
        "  a.b:\n    no_worse: lower_is_better\n    judge:\n      tolerance: 3 %\n      alpha: 1e-3\n"
        "  a.c: {at_most: 4 ms}\n"
        "  d.*: {near: {value: 0.5, tolerance: 5 %}, judge: {beta: 1 %, pairs: 64}}\n"
        "judge:\n  alpha: 0.05\n  budget: 2 min\n"
    )
    profile = load_profile(write(tmp_path, "one", claims))
    assert profile.claims["a.b"].judge == {
        "tolerance": Setting(0.03, "one.yaml:9"),
        "alpha": Setting(0.001, "one.yaml:10"),
        "budget": Setting(120, "one.yaml:15"),
    }
    assert profile.claims["a.c"].judge == {
        "alpha": Setting(0.05, "one.yaml:14"),
        "budget": Setting(120, "one.yaml:15"),
    }
    found = profile.find("d.any")
    assert found is not None
    assert found.judge["beta"] == Setting(0.01, "one.yaml:12")
    assert found.judge["pairs"] == Setting(64, "one.yaml:12")


def test_a_threshold_knows_its_place_and_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    claims = (
        "  a.b:\n    at_most: 4e2 ms\n    summary: >\n      folded\n      text\n"
        "    source:\n      document: paper.txt\n      section: '2'\n"
        "      published: {max: 0.40 s, p95: 391.0 ms}\n      rule: rounded up\n"
    )
    profile = load_profile(write(tmp_path / "thresholds", "one", claims))
    threshold = profile.claims["a.b"]
    assert threshold.location == "thresholds/one.yaml:6"
    assert threshold.summary == "folded text"
    assert threshold.source is not None
    assert str(threshold.source) == "paper.txt §2 (max 0.40 s, p95 391.0 ms): rounded up"
    assert threshold.source.published["max"] == Quantity(0.4, "s")
    assert threshold.source.rule == "rounded up"


def test_the_rule_of_a_file_makes_the_limits_that_do_not_have_one(tmp_path: Path) -> None:
    claims = (
        "  a.most: {at_most: 4 ms, source: {document: d, published: {run_1: 3 ms, run_12: 4 ms}}}\n"
        "  a.least: {at_least: 3 ms, source: {document: d, published: {min: 3 ms}}}\n"
        "  a.own: {at_most: 5 ms, source: {document: d, published: {max: 4 ms}, rule: in words}}\n"
        "  a.alone: {at_most: 5 ms, source: {document: d}}\n"
        "  a.ratio: {ratio: {at_most: 1}, source: {document: d, published: {one: 3 ms}}}\n"
        "  a.unknown: {unknown: a graph, unit: ms, source: {document: d, published: {one: 3 ms}}}\n"
        "rule: the worst one\n"
    )
    found = load_profile(write(tmp_path, "one", claims)).claims
    rules = {
        name.partition(".")[2]: each.source and each.source.rule for name, each in found.items()
    }
    assert rules == {
        "most": "the worst one",
        "least": "the worst one",
        "own": "in words",
        "alone": "",
        "ratio": "",
        "unknown": "",
    }
    assert str(found["a.least"].source) == "d (min 3 ms): the worst one"


def test_figures_published_beside_another_may_have_other_units(tmp_path: Path) -> None:
    claims = (
        "  a.b:\n    at_most: 4 s\n    source:\n      document: d\n"
        "      published: {value: 4 s}\n      also: {share: .996 dimensionless, rate: 25.0 MB/s}\n"
    )
    source = load_profile(write(tmp_path, "one", claims)).claims["a.b"].source
    assert source is not None
    assert source.also == {"share": ".996 dimensionless", "rate": "25.0 MB/s"}
    assert str(source) == "d (value 4 s)"


def test_a_source_may_be_a_document_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "one", "  a.b: {at_most: 4 ms, source: {document: paper.txt}}")
    assert str(load_profile(path).claims["a.b"].source) == "paper.txt"


def test_a_byte_order_mark_and_other_line_ends_do_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path, "one", "  a.b: {at_most: 4 ms}")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_profile(path).claims["a.b"].location.endswith("one.yaml:6")


def test_the_exact_name_counts_before_the_star(tmp_path: Path) -> None:
    claims = (
        "  start.*: {at_most: 9 ms}\n  start.runc: {at_most: 5 ms}\n  start.*.cold: {at_most: 8 ms}"
    )
    profile = load_profile(write(tmp_path, "one", claims))

    def limit(claim: str) -> str | None:
        found = profile.find(claim)
        return str(found.criterion) if found else None

    assert limit("start.runc") == "≤ 5 ms"
    assert limit("start.runsc") == "≤ 9 ms"
    assert limit("start.runsc.cold") == "≤ 8 ms"
    assert limit("start") is None
    assert limit("start.") is None
    assert limit("start.a.b") is None
    assert limit("restart.runc") is None
    assert limit("start.runc\n") is None


def test_an_earlier_folder_wins_and_a_missing_one_has_nothing(tmp_path: Path) -> None:
    write(tmp_path / "mine", "one", "  a.b: {at_most: 1 ms}")
    write(tmp_path / "shipped", "one", "  a.b: {at_most: 2 ms}")
    write(tmp_path / "shipped", "two", "  a.b: {at_most: 3 ms}")
    folders = [tmp_path / "missing", tmp_path / "mine", tmp_path / "shipped"]
    profiles = load_profiles(folders)
    assert sorted(profiles) == ["one", "two"]
    assert profiles["one"].path == tmp_path / "mine" / "one.yaml"
    assert str(profiles["one"].claims["a.b"].criterion) == "≤ 1 ms"
    assert load_profiles([tmp_path / "missing"]) == {}
    assert load_profiles([]) == {}


def test_a_wrong_file_in_an_earlier_folder_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "mine", "one", "  a.b: {at_mst: 1 ms}")
    write(tmp_path / "shipped", "one", "  a.b: {at_most: 2 ms}")
    with pytest.raises(ThresholdError, match=r"mine/one\.yaml:6:9: "):
        load_profiles([tmp_path / "mine", tmp_path / "shipped"])


def test_a_profile_without_claims_is_a_profile(tmp_path: Path) -> None:
    assert load_profile(write(tmp_path, "one", "")).claims == {}


def test_the_shipped_folder_is_one_with_the_files_or_none() -> None:
    folder = shipped_folder()
    assert folder is None or sorted(each.name for each in folder.glob("*.yaml")) == [
        each.name for each in FILES
    ]


def test_where_a_calibrated_limit_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "desk.yaml"
    path.write_text("""
hardware: {name: desk, match: {logical_cpus: 8}}
rule: the published mean and a tenth
claims:
  start.shell:
    at_most: 5.4 ms
    source:
      calibrated:
        date: "2026-11-22"
        figures: [5.1 ms, 5.15 ms, 5.2 ms]
        samples: [24, 24, 24]
        spread: 0.9 %
        margin: 5 %
        confidence: 99 %
        next_runs: 20
        noisy: load 4 on 2 processors
        vperf: "0.1.0"
        machine: {cpu_model: x}
""")
    source = load_profile(path).claims["start.shell"].source
    assert source is not None
    assert source.calibration is not None
    assert source.calibration.figures == ("5.1 ms", "5.15 ms", "5.2 ms")
    assert str(source) == (
        "calibrated 2026-11-22 by 3 runs (5.1 ms, 5.15 ms, 5.2 ms), margin 5 %, 99 % for the next 20 runs; "
        "on a noisy machine: load 4 on 2 processors"
    )


CALIBRATED = """
hardware: {name: desk, match: {logical_cpus: 8}}
claims:
  start.shell:
    at_most: 5.4 ms
    source:
      calibrated:
        date: "2026-11-22"
        figures: [5.1 ms, 5.15 ms, 5.2 ms]
        samples: [24, 24, 24]
        spread: 0.9 %
        margin: 5 %
        confidence: 99 %
        next_runs: 20
        vperf: "0.1.0"
        machine: {cpu_model: x}
"""


def desk(folder: Path, claims: str) -> HardwareProfile:
    """A profile of a file that somebody wrote, and of a calibration's beside it."""
    (folder / "desk.calibrated.yaml").write_text(CALIBRATED)
    (folder / "desk.yaml").write_text(
        f"hardware: {{name: desk, summary: my desk, match: {{logical_cpus: 2}}}}\n"
        f"judge: {{tolerance: 3 %}}\nclaims:\n{claims}\n"
    )
    return load_profiles([folder])["desk"]


@pytest.mark.parametrize(
    ("claims", "figure"),
    [
        ("  start.shell: {at_most: 4 ms}", "≤ 4 ms"),
        ("  start.*: {at_most: 4 ms}", "≤ 4 ms"),
        ("  start.shell: {near: {value: 4 ms, tolerance: 5 %}}", "near 4 ms ± 5 %"),
        (
            "  start.shell: {unknown: no figure, unit: ms, source: {document: a paper}}",
            "no published figure",
        ),
        ("  start.shell: {unknown: not yet measured, unit: ms}", "≤ 5.4 ms"),
        ("  start.*: {unknown: not yet measured, unit: ms}", "≤ 5.4 ms"),
        ("  other.claim: {at_most: 1 s}", "≤ 5.4 ms"),
        (f"  {CALIBRATED.partition('claims:')[2].strip()}".replace("5.4", "9"), "≤ 5.4 ms"),
    ],
)
def test_a_figure_that_somebody_wrote_counts_before_a_calibrations(
    tmp_path: Path, claims: str, figure: str
) -> None:
    threshold = desk(tmp_path, claims).find("start.shell")
    assert threshold is not None
    assert str(threshold.criterion).startswith(figure)


def test_what_a_profile_says_of_a_claim_stays_beside_a_calibrated_limit(tmp_path: Path) -> None:
    own = "  start.shell: {unknown: not yet, unit: ms, summary: it is quick, judge: {budget: 9 s}}"
    profile = desk(tmp_path, own)
    assert (profile.summary, str(profile.match.logical_cpus)) == ("my desk", "2")
    threshold = profile.claims["start.shell"]
    assert threshold.location.endswith("desk.calibrated.yaml:4")
    assert threshold.summary == "it is quick"
    assert {key: each.value for key, each in threshold.judge.items()} == {
        "tolerance": 0.03,
        "budget": 9.0,
    }
    other = desk(tmp_path, "  other.claim: {at_most: 1 s}").claims["start.shell"]
    assert {key: each.value for key, each in other.judge.items()} == {"tolerance": 0.03}


def test_a_calibration_alone_is_a_profile(tmp_path: Path) -> None:
    (tmp_path / "desk.calibrated.yaml").write_text(CALIBRATED)
    profile = load_profiles([tmp_path])["desk"]
    assert (profile.name, list(profile.claims)) == ("desk", ["start.shell"])


def test_a_file_of_a_name_in_an_earlier_folder_adds_to_the_later_ones(tmp_path: Path) -> None:
    write(tmp_path / "mine", "desk", "  a.b: {at_most: 1 ms}")
    (tmp_path / "desk.calibrated.yaml").write_text(CALIBRATED)
    profile = load_profiles([tmp_path / "mine", tmp_path])["desk"]
    assert list(profile.claims) == ["a.b", "start.shell"]
    assert profile.path == tmp_path / "mine" / "desk.yaml"


def test_a_figure_in_a_later_folder_has_precedence_over_a_calibration(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "desk.calibrated.yaml").write_text(CALIBRATED)
    write(tmp_path, "desk", "  start.shell: {at_most: 1 ms}\n  a.b: {at_most: 2 ms}")
    profile = load_profiles([mine, tmp_path])["desk"]
    assert {name: str(each.criterion) for name, each in profile.claims.items()} == {
        "start.shell": "≤ 1 ms",
        "a.b": "≤ 2 ms",
    }


def test_a_calibrations_file_has_calibrated_limits_only(tmp_path: Path) -> None:
    (tmp_path / "desk.calibrated.yaml").write_text(f"{CALIBRATED}  a.b: {{at_most: 1 s}}\n")
    with pytest.raises(ThresholdError) as error:
        load_profiles([tmp_path])
    assert str(error.value).endswith(
        "desk.calibrated.yaml:17:3: claims.a.b: is not from a calibration; write it in desk.yaml"
    )
