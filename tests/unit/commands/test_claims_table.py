"""``vperf claims`` from the command line, on a small project with records of a real run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

BOX = """
hardware: {name: box, summary: a box, match: {cpu_model: "no such processor"}}
rule: the worst of it
claims:
  start.pod.kvm:
    at_most: 400 ms
    source: {document: paper.txt, section: "1.1", published: {max: 391 ms}}
  start.pod.tcg: {at_most: 1 s, statistic: p99}
  nobody.tests.this: {at_least: 3 MB/s}
"""
ANY = """
hardware: {name: any, match: {}}
claims:
  start.container.*: {unknown: nobody has published it, unit: ms}
  start.order: {ratio: {at_most: 1}}
  copy.even: {near: {value: 1}, judge: {tolerance: 5 %}}
"""
HELLO = "hello from a conftest\nhello from its child\n"
TESTS = """
import random

import pytest

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Unavailable

noise = random.Random(1)


def around(centre):
    return lambda: Quantity(centre * (1 + 0.01 * noise.uniform(-1, 1)), "ms")


@pytest.mark.parametrize("accelerator", ["kvm", "tcg"])
class TestPods:
    def test_start(self, claim, accelerator):
        def sample():
            if accelerator == "tcg":
                raise Unavailable("no emulation here", remedy="install it", target="pod tcg")
            return around(300)()

        claim(f"start.pod.{accelerator}").holds(sample)


def test_container(claim):
    claim(f"start.container.{'runc'}").holds(around(100))


def test_order(claim):
    claim("start.order").compares(around(20), to=around(10))


def test_even(claim):
    name = "copy.even"
    claim(name).near(around(10), to=around(10))


def no_test(claim):
    claim("nobody.tests.this").holds(around(1))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose claims were run once; its record is run.json."""
    root = tmp_path_factory.mktemp("project")
    (root / "thresholds").mkdir()
    (root / "thresholds" / "box.yaml").write_text(BOX)
    (root / "thresholds" / "any.yaml").write_text(ANY)
    (root / "tests" / "claims").mkdir(parents=True)
    (root / "tests" / "claims" / "test_it.py").write_text(TESTS)
    (root / "conftest.py").write_text(
        "import os; print('hello from a conftest', flush=True); os.system('echo hello from its child')\n"
    )
    (root / "pytest.ini").write_text("[pytest]\nclaims_seed = 2\nclaims_json = run.json\n")
    done = _run(root, "pytest", "-q", "--hw=box", "--claims-sessions=1", "-p", "no:cacheprovider")
    assert (root / "run.json").is_file(), done.stdout
    return root


def _run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    # Its own lock, so that it neither waits for other measurements here nor disturbs them for long.
    env = {**os.environ, "VPERF_LOCK": str(root / "lock")}
    return subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def vperf(project: Path) -> Run:
    return lambda *arguments: _run(project, "pytest_vperf", "claims", *arguments)


def table(vperf: Run, *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    done = vperf("--json", "--all", *arguments)
    assert done.returncode == 0, done.stderr
    return {(line["profile"], line["claim"]): line for line in json.loads(done.stdout)["table"]}


def test_every_claim_has_its_test_threshold_and_last_verdict(vperf: Run) -> None:
    lines = table(vperf)
    held = lines["box", "start.pod.kvm"]
    assert held["limit"] == "≤ 400 ms"
    assert held["source"] == "paper.txt §1.1 (max 391 ms): the worst of it"
    assert held["tests"] == ["tests/claims/test_it.py::TestPods::test_start"]
    # It holds, on a machine that the figure is not of.
    assert held["last"]["verdict"] == "not comparable"
    assert 297 < held["last"]["estimate"] < 303
    assert held["why"] == "the machine is not box"
    missing = lines["box", "start.pod.tcg"]
    assert missing["limit"] == "p99 ≤ 1 s"
    assert missing["last"]["verdict"] == "not measured"
    assert missing["why"].startswith("no emulation here")
    assert lines["any", "start.order"]["last"]["verdict"] == "refuted"
    assert lines["any", "copy.even"]["limit"] == "near 1 ± 5 %"
    # Its name is not written in the call: only the record knows the test.
    assert lines["any", "copy.even"]["tests"] == ["tests/claims/test_it.py::test_even"]


def test_a_pattern_is_shown_with_the_claims_it_took(vperf: Run) -> None:
    lines = table(vperf)
    assert lines["any", "start.container.runc"]["entry"] == "start.container.*"
    assert ("any", "start.container.*") not in lines


def test_without_a_record_tests_are_known_by_the_form_of_the_name(
    vperf: Run, tmp_path: Path
) -> None:
    lines = table(vperf, str(tmp_path))  # a folder without records
    never = {claim: (line["tests"], line["why"]) for (_, claim), line in lines.items()}
    file = "tests/claims/test_it.py::"
    expected: dict[str, tuple[list[str], str]] = {
        "start.pod.kvm": ([f"{file}TestPods::test_start"], "never measured"),
        "start.pod.tcg": ([f"{file}TestPods::test_start"], "never measured"),
        "nobody.tests.this": ([], "never measured: no test names it"),
        "start.container.*": ([f"{file}test_container"], "never measured"),
        "start.order": ([f"{file}test_order"], "never measured"),
        "copy.even": ([], "never measured: no test names it"),
    }
    # An installed package has profiles of its own.
    assert {claim: never.get(claim) for claim in expected} == expected


def test_the_terminal_has_all_of_it_and_a_conftest_does_not_write_into_it(vperf: Run) -> None:
    done = vperf("--hw=box", "--all")
    assert done.returncode == 0
    assert "hello" not in done.stdout
    assert done.stderr == HELLO
    lines = done.stdout.splitlines()
    assert lines[0] == "box:"
    words = " ".join(done.stdout.split())
    assert "not comparable start.pod.kvm ≤ 400 ms" in words
    assert "never measured nobody.tests.this ≥ 3 MB/s no test names it" in words
    assert "paper.txt §1.1" in words
    assert lines[-1] == "claims: 3, of which 1 were measured: 1 not comparable"


def test_claims_that_no_test_here_names_are_shown_when_asked_for(vperf: Run) -> None:
    shown = vperf().stdout
    assert "start.pod.kvm" in shown
    assert "nobody.tests.this" not in shown
    *_, counted, left = shown.splitlines()
    # Its own five claims, and none of those that are shipped.
    assert counted.startswith("claims: 5, of which 4 were measured: ")
    pytest.LineMatcher([left]).re_match_lines(
        [r"not shown: [0-9]{1,3} that no test here names; --all shows them"]
    )
    assert "nobody.tests.this" in vperf("--all").stdout
    named = vperf("-k", "nobody.*").stdout
    assert "nobody.tests.this" in named
    assert "not shown" not in named
    own = json.loads(vperf("--json").stdout)["table"]
    assert {line["profile"] for line in own} == {"box", "any"}
    assert all(line["tests"] for line in own)


def test_a_claim_and_a_profile_can_be_chosen(vperf: Run) -> None:
    assert list(table(vperf, "-k", "start.*", "--hw=any")) == [
        ("any", "start.container.runc"),
        ("any", "start.order"),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--hw=bix"], "there is no hardware profile 'bix'; did you mean 'box'? (there are any, box*)"),
        (["--hw=auto"], "there is no hardware profile 'auto'; 'auto' is for runs (there are any, box*)"),
        (["no.json"], "no.json: cannot be read: there is no such file"),
        (["--rows=no.yaml"], "no.yaml: cannot be read: there is no such file"),
        (["--tests=no"], "--tests: no does not exist"),
    ],
)  # fmt: skip
def test_missing_files_are_reported(vperf: Run, arguments: list[str], says: str) -> None:
    done = vperf(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    pytest.LineMatcher(done.stderr.splitlines()).fnmatch_lines([f"vperf claims: {says}"])


def test_options_that_pytest_refuses_end_the_command(vperf: Run) -> None:
    done = vperf("--thresholds=no")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--claims-thresholds: " in done.stderr
    assert done.stderr.endswith("vperf claims: pytest ended with status 4\n")


def test_output_needs_a_format(vperf: Run) -> None:
    done = vperf("--output=x")
    assert done.returncode == 2
    assert "--output goes with --markdown or --json" in done.stderr


def test_an_unwritable_file_is_reported(vperf: Run, tmp_path: Path) -> None:
    done = vperf("--json", f"--output={tmp_path}/no/x.json")
    assert done.returncode == 1
    assert done.stderr.endswith("No such file or directory\n")


def test_rows_that_do_not_fit_are_reported(vperf: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.yaml"
    rows.write_text(
        "A: {claim: starts, names: [start.*]}\n"
        "B: {claim: orders, names: [start.order, copy.*]}\n"
        "C: {claim: none, names: [gone.*]}\n"
    )
    done = vperf(f"--rows={rows}")
    assert done.returncode == 1
    said = done.stderr.removeprefix(HELLO).splitlines()
    # An installed package has profiles of its own, whose claims are in none of these rows.
    assert {
        "vperf claims: start.order is in A and B",
        "vperf claims: nobody.tests.this is in no row",
        "vperf claims: C has no claim",
    } <= set(said)
    assert "A starts" in done.stdout
    rows.write_text("A: {claim: starts}\n")
    done = vperf(f"--rows={rows}")
    assert done.returncode == 2
    assert done.stderr.endswith(f"{rows}:1:4: A: a row has the keys claim and names\n")


def test_a_row_says_why_a_claim_has_no_verdict(vperf: Run, project: Path, tmp_path: Path) -> None:
    rows, empty = tmp_path / "rows.yaml", tmp_path / "empty.json"
    rows.write_text("A: {claim: starts, names: [start.*]}\nB: {claim: others, names: [nobody.*]}\n")
    empty.write_text(json.dumps({**json.loads((project / "run.json").read_text()), "claims": []}))
    shown = vperf(f"--rows={rows}", "--all", str(empty)).stdout
    words = " ".join(shown.split())
    assert "any 0 of 2 - no record of" in words
    assert "B others box 0 of 1 - no test names it: 1" in words
    page = vperf(f"--rows={rows}", "--all", "--markdown", str(empty)).stdout
    assert "\n### A: starts\n" in page
    untested = page.partition("### B: others")[2]
    assert "| never measured | `nobody.tests.this` | box | ≥ 3 MB/s |" in untested
    assert "| none names it | - |" in untested


def test_kept_verdicts_are_a_record_and_stay_as_they_are(
    vperf: Run, project: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    before = table(vperf)
    assert table(vperf, "run.json", f"--keep={kept}", "--hw=box") != before
    assert kept.stat().st_size < (project / "run.json").stat().st_size / 3
    first = kept.read_text()
    assert table(vperf, str(kept)) == before
    assert table(vperf, "run.json", f"--keep={kept}") == before
    assert kept.read_text() == first


def test_a_calibrated_limit_says_so_where_others_name_their_document(
    vperf: Run, tmp_path: Path
) -> None:
    (tmp_path / "desk.yaml").write_text("""
hardware: {name: desk, match: {logical_cpus: 2}}
claims:
  start.pod.kvm:
    at_most: 400 ms
    source:
      calibrated: {date: "2026-11-22", figures: [3 s], samples: [24], spread: 1 %, margin: 6 %, confidence: 99 %,
                   next_runs: 20, vperf: "0.1.0", machine: {logical_cpus: "2"}}
""")
    done = vperf("--markdown", f"--thresholds={tmp_path}", "--hw=desk")
    assert "| `start.pod.kvm` | ≤ 400 ms | - | - | - | - | calibrated 2026-11-22 |" in done.stdout


def test_a_page_of_markdown(vperf: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert vperf("--markdown", f"--output={page}", "--hw=box").returncode == 0
    text = page.read_text("utf-8")
    assert f"Made by `vperf claims --markdown --output={page} --hw=box`" in text
    assert "\n## box\n\nFor a box.\n\n| last verdict | claim | limit | measured |" in text
    row = next(line for line in text.splitlines() if "`start.pod.kvm`" in line)
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert cells[0] == "not comparable"
    assert cells[2] == "≤ 400 ms"
    assert cells[7:] == [
        "paper.txt §1.1", "`tests/claims/test_it.py::TestPods::test_start`", "[^1]",
    ]  # fmt: skip
    assert "[^1]: the machine is not box" in text.splitlines()


def test_a_page_begins_with_what_was_judged_on_hardware_that_fits(vperf: Run) -> None:
    text = vperf("--markdown").stdout
    first, _, rest = text.partition("## any")
    assert "## Judged on hardware that fits" in first
    assert "| refuted | `start.order` | any | ratio ≤ 1 |" in first
    assert "`start.order`" not in rest
    assert "| not comparable | `start.container.runc` |" in rest


def test_half_of_the_evidence_is_shown_and_not_written(
    vperf: Run, project: Path, tmp_path: Path
) -> None:
    records, page, kept = tmp_path / "records", tmp_path / "page.md", tmp_path / "kept.json"
    records.mkdir()
    (records / "sound.json").write_bytes((project / "run.json").read_bytes())
    (records / "cut.json").write_bytes((project / "run.json").read_bytes()[:1000])
    done = vperf(str(records), f"--keep={kept}")
    assert done.returncode == 1
    assert f"vperf claims: {records}/cut.json: is not JSON: " in done.stderr
    assert "holds" in done.stdout
    assert vperf(str(records), "--markdown", f"--output={page}").returncode == 1
    assert not page.exists()
    assert not kept.exists()


def test_a_record_that_was_named_and_is_damaged_ends_the_command(
    vperf: Run, project: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes((project / "run.json").read_bytes()[:1000])
    done = vperf("run.json", str(cut))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{HELLO}vperf claims: {cut}: is not JSON: ")


MINE = """
hardware: {name: any, match: {}}
claims:
  start.pod: {at_most: 1 ms}
  copy.*: {at_most: 2 ms}
  list.*: {unknown: nobody knows, unit: ms}
"""
LATER = """
hardware: {name: any, match: {}}
claims:
  start.pod: {at_most: 9 ms}
  copy.fast: {at_most: 3 ms}
  list.sort: {at_most: 4 ms}
  list.*: {at_most: 5 ms}
  only.here: {at_most: 6 ms}
"""
ON_BOX = """
hardware: {name: box, match: {cpu_model: "no such processor"}}
claims:
  only.*: {unknown: nobody knows, unit: ms}
  start.pod: {at_most: 1 s}
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two folders of threshold files, of which the first one counts more."""
    root = tmp_path_factory.mktemp("folders")
    for folder, name, text in (
        ("mine", "any", MINE),
        ("later", "any", LATER),
        ("mine", "box", ON_BOX),
    ):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / f"{name}.yaml").write_text(text)
    (root / "pytest.ini").write_text("[pytest]\nclaims_thresholds =\n  mine\n  later\n")
    return root


#: What is hidden, and by what: name, limit and line of each.
HIDDEN = [
    ("copy.* ≤ 2 ms (mine/any.yaml:5)", "copy.fast ≤ 3 ms (later/any.yaml:5)"),
    ("list.* ≤ 5 ms (later/any.yaml:7)", "list.* no published figure (mine/any.yaml:6)"),
    ("start.pod ≤ 9 ms (later/any.yaml:4)", "start.pod ≤ 1 ms (mine/any.yaml:4)"),
    ("start.pod ≤ 1 ms (mine/any.yaml:4)", "start.pod ≤ 1 s (mine/box.yaml:5)"),
]


def test_what_hides_what_is_said(folders: Path) -> None:
    done = _run(folders, "pytest_vperf", "claims")
    said = [line for line in done.stdout.splitlines() if line.startswith("hidden: ")]
    told = [
        (f"hidden: any: {hidden}", f"{'box' if 'box' in by else 'any'}: {by}")
        for hidden, by in HIDDEN
    ]
    assert sorted(said) == sorted(f"{hidden}, by {by}" for hidden, by in told)
    found = json.loads(_run(folders, "pytest_vperf", "claims", "--json").stdout)["hidden"]
    assert sorted(
        tuple(f"{each['name']} {each['limit']} ({each['location']})" for each in (one, one["by"]))
        for one in found
    ) == sorted(HIDDEN)


def test_only_what_is_shown_is_said_to_be_hidden(folders: Path) -> None:
    done = _run(folders, "pytest_vperf", "claims", "-k", "copy.*")
    assert [line for line in done.stdout.splitlines() if line.startswith("hidden: ")] == [
        "hidden: any: copy.* ≤ 2 ms (mine/any.yaml:5), by any: copy.fast ≤ 3 ms (later/any.yaml:5)"
    ]


def test_a_file_of_a_shipped_name_adds_to_the_shipped_one(project: Path) -> None:
    done = _run(project, "pytest_vperf", "claims", "--json", "--all", "--hw=any")
    names = {line["claim"] for line in json.loads(done.stdout)["table"]}
    assert {"start.order", "startup.order.kvm.qboot_before_seabios"} <= names


def test_a_record_without_a_verdict_is_listed_under_the_exact_name(tmp_path: Path) -> None:
    """As a run would have judged it, which takes a pattern of the machine's profile only after that."""
    for name, match, entry in (
        ("any", "{}", "start.gone: {at_most: 3 ms}"),
        ("box", '{logical_cpus: ">= 1"}', "start.*: {unknown: nobody has published it, unit: ms}"),
    ):
        (tmp_path / f"{name}.yaml").write_text(
            f"hardware: {{name: {name}, match: {match}}}\nclaims: {{{entry}}}\n"
        )
    (tmp_path / "test_gone.py").write_text(
        "from pytest_vperf.targets.base import Unavailable\n"
        "def test_gone(claim):\n"
        "    claim('start.gone')\n"
        "    raise Unavailable('no machine here', remedy='buy one', target='pod')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nclaims_thresholds = .\n")
    _run(tmp_path, "pytest", "--hw=box", "--claims-json=run.json", "-p", "no:cacheprovider")
    arguments = ("claims", "--json", "--tests=.", "-k", "start.gone", "run.json")
    rows = json.loads(_run(tmp_path, "pytest_vperf", *arguments).stdout)["table"]
    taken = [(row["profile"], row["entry"]) for row in rows if row["last"]]
    assert taken == [("any", "start.gone")]
