"""Measurements are kept on a full disk, after a kill, and with any text or number in a record."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.results import reading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Characters that must not reach a terminal, or a file that is shown on one.
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)
#: Limit the size of this process's files, which acts like a full disk.
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))
"""
ENDS_BETTER = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
CLAIMS = """
    import pytest
    from samplers import around

    @pytest.mark.parametrize("number", range(4))
    def test_it(claim, number):
        claim("start.quick").holds(around(350))

    def test_last(claim):
        {last}
"""
SAID = (
    "claims: {folder}/out.json.journal-* cannot be written: File too large; measuring goes on, and writing is tried "
    "again with every claim and at the end"
)


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    words = ("--claims-json=out.json", "-p", "no:cacheprovider", "--claims-sessions=1", *options)
    return project.runpytest_subprocess(*words)


def document(project: pytest.Pytester) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.path / "out.json").read_text())
    return found


def in_journal(project: pytest.Pytester) -> list[str]:
    """The names of the claims in the journal that the record names."""
    journal = project.path / document(project)["unfinished"]
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return [line["claim"]["name"] for line in lines if "claim" in line]


@pytest.mark.parametrize(
    ("last", "options", "counts", "pytest_says"),
    [
        ('claim("start.quick").holds(around(350))', (), "5 held", "* 5 held in *"),
        ("assert False", ("-x",), "4 held", "* 1 failed, 4 held in *"),
        ("raise KeyboardInterrupt", (), "4 held", "*KeyboardInterrupt*"),
        ('claim("start.quick").holds(around(350))', ("-n2",), "5 held", "* 5 held in *"),
    ],
    ids=["to the end", "-x", "ctrl-c", "xdist"],
)
def test_on_a_full_disk_measuring_goes_on_and_the_end_says_what_is_missing(
    project: pytest.Pytester, last: str, options: Sequence[str], counts: str, pytest_says: str
) -> None:
    project.makeconftest(FULL.format(size=16_000))
    project.makepyfile(CLAIMS.format(last=last))
    result = run(project, *options)
    result.stdout.fnmatch_lines(
        ["* claims *", "holds *start.quick*", f"claims: {counts}", pytest_says]
    )
    told = [line for line in result.outlines if "measuring goes on" in line]
    assert len(told) == 1
    assert re.fullmatch(SAID.format(folder=project.path).replace("*", "[0-9a-f]{12}"), told[0])
    kept = in_journal(project)
    assert kept
    measured = int(counts[0])
    assert 0 < len(kept) < measured
    end = f"claims: {project.path}/out.json cannot be written: File too large; {len(kept)} of {measured} claims"
    result.stdout.fnmatch_lines([f"{end} are in {project.path}/out.json.journal-*"])
    assert result.ret == 74


def test_a_disk_that_has_room_again_at_the_end_has_the_whole_record(
    project: pytest.Pytester,
) -> None:
    project.makeconftest(FULL.format(size=16_000) + ENDS_BETTER)
    project.makepyfile(CLAIMS.format(last='claim("start.quick").holds(around(350))'))
    result = run(project)
    result.stdout.fnmatch_lines(["claims: * cannot be written: File too large; *"])
    assert result.ret == 0
    assert [each["verdict"] for each in document(project)["claims"]] == ["holds"] * 5
    assert [each.name for each in project.path.glob("out.json*")] == ["out.json"]


def test_where_another_folder_has_room_the_whole_record_is_there(
    project: pytest.Pytester, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    project.makeconftest(
        FULL.format(size=16_000)
        + f"""
import tempfile
tempfile.tempdir = {str(tmp_path / "elsewhere")!r}
real = tempfile.mkstemp
def mkstemp(*words, **more):  # this one's disk has room
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return real(*words, **more)
tempfile.mkstemp = mkstemp
"""
    )
    project.makepyfile(CLAIMS.format(last='claim("start.quick").holds(around(350))'))
    result = run(project)
    assert result.ret == 74
    (saved,) = (tmp_path / "elsewhere").iterdir()
    result.stdout.fnmatch_lines([f"claims: * cannot be written: *; the record is in {saved}"])
    assert len(json.loads(saved.read_text())["claims"]) == 5
    assert saved.stat().st_mode & 0o777 == 0o600


def test_a_killed_run_has_every_claim_that_ended(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        @pytest.mark.parametrize("number", range(1000))
        def test_it(claim, number):
            claim("start.quick").holds(around(350))
            print(f"kept {number}", flush=True)
        """
    )
    command = [sys.executable, "-m", "pytest", "-s", "--claims-json=out.json"]
    command += ["-p", "no:cacheprovider", "--claims-sessions=1"]
    with subprocess.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        kept = 0
        for line in process.stdout:
            kept += "kept " in line
            if kept == 7:
                process.send_signal(signal.SIGKILL)
        process.wait()
    assert document(project)["claims"] == []
    assert len(in_journal(project)) >= kept
    shown = vperf(project, "claims", "out.json", "--hw=here", "--thresholds=thresholds")
    assert re.search(
        r"^vperf claims: out\.json: the run did not finish: its journal has \d+ claims",
        shown.stderr,
    )
    assert "holds" in shown.stdout
    assert shown.returncode == 0

    # The next run has the file, and says where the other one's claims are.
    (journal,) = project.path.glob("out.json.journal-*")
    project.makepyfile("def test_it(): pass")
    for path in project.path.glob("test_*.py"):
        path.write_text("def test_it(): pass")
    result = project.runpytest_subprocess("--claims-json=out.json")
    result.stdout.fnmatch_lines(
        [
            f"claims: a run that was killed left * claims in {journal}: `vperf claims` reads it, "
            "and it stays until you remove it"
        ]
    )
    assert result.ret == 0
    assert sorted(project.path.glob("out.json*")) == [project.path / "out.json", journal]
    shown = vperf(project, "claims", str(journal), "--hw=here", "--thresholds=thresholds")
    assert "holds" in shown.stdout


def vperf(project: pytest.Pytester, *words: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from pytest_vperf.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=project.path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


HUGE = """
    from pytest_vperf.quantity import Quantity
    from samplers import around
    def test_huge(claim): claim("start.quick").holds(lambda: Quantity(1e308, "ms", discrete=True))
    def test_other(claim): claim("start.quick").holds(around(350))
"""


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["", "xdist"])
def test_a_figure_beyond_all_numbers_keeps_no_other_claim_from_the_record(
    project: pytest.Pytester, options: Sequence[str]
) -> None:
    project.makepyfile(HUGE)
    result = run(project, *options)
    result.stdout.fnmatch_lines(["claims: 1 held, 1 refuted"])
    assert result.ret == 1
    huge, other = document(project)["claims"]
    assert (huge["estimate"], huge["gap_percent"], huge["verdict"]) == (1e308, None, "refuted")
    assert other["verdict"] == "holds"


SURROGATE = r"""
    from samplers import around, broken
    from pytest_vperf.targets.base import Unavailable
    NAME = "no file caf\udce9"
    def missing(): raise Unavailable(NAME, target="pod \udce9")
    def test_error(claim): claim("start.quick").holds(broken(1, RuntimeError(NAME)))
    def test_missing(claim): claim("start.quick").holds(missing)
    def test_outside(claim): missing()
    def test_no_claim(): missing()
    def test_no_claim_fails(): raise RuntimeError(NAME)
    def test_good(claim): claim("start.quick").holds(around(350))
"""


def test_half_a_surrogate_pair_does_not_end_a_run_of_xdist(project: pytest.Pytester) -> None:
    project.makepyfile(SURROGATE)
    result = run(project, "-n1", "--junitxml=out.xml")
    output = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in output
    result.stdout.fnmatch_lines(["claims: 1 held, 1 inconclusive, 2 not measured"])
    assert "caf\\udce9" in output
    reasons = [each["reason"] for each in document(project)["claims"]]
    assert reasons.count("no file caf\udce9") == 2
    assert "error: RuntimeError: no file caf\udce9" in reasons
    assert "no file caf\\udce9" in (project.path / "out.xml").read_text()


HOSTILE_TESTS = r"""
    import pytest
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Facts, TargetError, Unavailable
    from samplers import around, broken

    HOSTILE = (
        "a\x1b[2J\x1b]0;title\x07\x9b31m\x85\x00\x08\r\u202e\u2066\u200b\ufeff\udce9\U000e0041\ufffe"
        "|<script>&amp;[bold]x[/bold][/nothing]]]>`*_z"
    )

    class Machine:
        name = HOSTILE
        def facts(self): return Facts("pod", HOSTILE, {HOSTILE: HOSTILE})
        def close(self): pass

    def missing(): raise Unavailable(HOSTILE, remedy=HOSTILE, target=HOSTILE)

    @pytest.fixture
    def absent(): missing()

    def test_error(claim): claim("start.quick").holds(broken(1, TargetError(HOSTILE)))
    def test_chain(claim):
        try:
            raise TargetError(HOSTILE)
        except TargetError as error:
            raise RuntimeError(f"{HOSTILE}\nand more") from error
    def test_missing(claim): claim("start.quick").holds(missing)
    def test_outside(claim): missing()
    def test_no_claim(): missing()
    def test_in_setup(absent): pass
    def test_skip(claim): pytest.skip(HOSTILE)
    def test_subtests(subtests):
        with subtests.test("x"): missing()
    def test_refuted(claim, vperf_scope):
        def sample():
            vperf_scope.own(Machine())
            return Quantity(900, "ms", ((HOSTILE, 400.0), ("kernel", 500.0)), discrete=True)
        claim("start.quick").holds(sample)
    @pytest.mark.parametrize("name", [HOSTILE])
    def test_parameter(claim, name): missing()
"""


@pytest.mark.parametrize(
    "options",
    [(), ("-v", "-rA"), ("--tb=short",), ("--tb=native",), ("--tb=line",), ("-l",), ("-n1",)],
    ids=" ".join,
)
def test_no_text_of_an_error_or_a_target_reaches_the_terminal_as_more_than_a_text(
    project: pytest.Pytester, options: Sequence[str]
) -> None:
    project.makepyfile(HOSTILE_TESTS)
    result = run(project, "--junitxml=out.xml", "--durations=0", *options)
    output = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in output
    result.stdout.fnmatch_lines(["claims: 1 refuted, 1 inconclusive, 4 not measured"])
    assert FORBIDDEN.findall(output) == []
    assert r"\x1b[2J\x1b]0;title\x07\x9b31m" in output
    report = (project.path / "out.xml").read_text("utf-8")
    assert FORBIDDEN.findall(report) == []
    assert ET.fromstring(report)
    kept = (project.path / "out.json").read_text("utf-8")
    assert FORBIDDEN.findall(kept) == []
    errors = [each["reason"] for each in json.loads(kept)["claims"]]
    assert any(
        "\x1b[2J\x1b]0;title\x07\x9b31m" in each for each in errors
    )  # the record has what was


IN_PARTS = """
    import os, signal
    from samplers import around
    def test_it(claim):
        claim("start.quick").holds(around(350))
        claim("start.alike").compares(around(100), to=around(100))
        os.kill({who}, signal.SIGKILL)
"""


def test_a_worker_that_dies_loses_no_claim_that_ended(project: pytest.Pytester) -> None:
    project.makepyfile(IN_PARTS.format(who="os.getpid()"))
    result = run(project, "-n1", "--max-worker-restart=0")
    result.stdout.fnmatch_lines(["claims: 2 held"])
    assert result.ret == 1
    assert [each["name"] for each in document(project)["claims"]] == ["start.quick", "start.alike"]
    assert [each.name for each in project.path.glob("out.json*")] == ["out.json"]


def test_a_run_of_workers_that_is_killed_loses_no_claim_that_ended(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        test_1="""
        from samplers import around
        def test_first(claim): claim("start.quick").holds(around(350))
        """,
        test_2=IN_PARTS.format(who="os.getppid()"),
    )
    run(project, "-n1")
    assert document(project)["claims"] == []
    shown = vperf(project, "claims", "out.json", "--thresholds=thresholds")
    assert "out.json: the run did not finish: its journal has 3 claims\n" in shown.stderr


#: Has more than a second of samples when it is killed, before its session of this number.
IN_SESSIONS = """
    import os, time
    from samplers import around
    visits, sample = [], around(350)

    def slow():
        if len(visits) == 1:
            time.sleep(0.2)
        return sample()

    def test_waits(claim):
        visits.append(1)
        if len(visits) == {session}:
            os.system(f"kill -KILL {who}")
        claim("start.quick").holds(slow)
"""


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["", "xdist"])
def test_a_run_that_is_killed_between_sessions_has_what_was_sampled_before(
    project: pytest.Pytester, options: Sequence[str]
) -> None:
    who = "{os.getpid()} {os.getppid()}" if options else "{os.getpid()}"
    project.makepyfile(IN_SESSIONS.format(session=3, who=who))
    run(project, "--claims-sessions=3", *options)
    shown = vperf(project, "claims", "out.json", "--thresholds=thresholds")
    assert "the run did not finish: its journal has 1 claim, 1 of them unfinished\n" in shown.stderr
    document = reading.read(project.path / "out.json", lambda head: None, lambda _, text: text)
    (found,) = map(json.loads, document.claims or ())
    assert found["verdict"] == "inconclusive"
    assert found["n"] > 0
    assert found["reason"] == "the run ended before session 2 of 3"


def test_a_worker_that_dies_between_sessions_leaves_what_it_sampled(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(IN_SESSIONS.format(session=2, who="{os.getpid()}"))
    result = run(project, "-n1", "--max-worker-restart=0", "--claims-sessions=3")
    assert result.ret == 1
    (found,) = document(project)["claims"]
    assert (found["verdict"], found["cause"]) == ("inconclusive", "error")
    reason = "error: pytest-xdist's worker gw0 died before this claim was judged"
    assert found["reason"] == reason
    assert found["n"] > 0
    assert len(found["sessions"]) == 1
    result.stdout.fnmatch_lines([f"start.quick:  {reason}"])


def test_a_claim_of_many_sessions_is_in_the_record_once(project: pytest.Pytester) -> None:
    project.makepyfile(IN_SESSIONS.format(session=0, who=""))
    result = run(project, "--claims-sessions=3")
    assert result.ret == 0
    (found,) = document(project)["claims"]
    assert (found["verdict"], len(found["sessions"])) == ("holds", 3)
    assert [each.name for each in project.path.glob("out.json*")] == ["out.json"]


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["", "xdist"])
def test_a_run_without_claims_leaves_the_file_of_the_ini_setting_alone(
    project: pytest.Pytester, options: Sequence[str]
) -> None:
    project.makeini("[pytest]\nclaims_json = out.json\n")
    (project.path / "out.json").write_text("of the run before")
    project.makepyfile("def test_it(): pass")
    project.runpytest_subprocess(*options).assert_outcomes(passed=1)
    assert [each.name for each in project.path.glob("out.json*")] == ["out.json"]
    assert (project.path / "out.json").read_text() == "of the run before"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give links to another user")
def test_a_link_of_somebody_else_in_a_shared_folder_is_refused_before_anything_is_measured(
    project: pytest.Pytester,
) -> None:
    shared, ours = project.mkdir("shared"), project.path / "ours"
    shared.chmod(0o1777)
    ours.write_text("ours")
    (shared / "out.json").symlink_to(ours)
    os.chown(shared / "out.json", 65534, 65534, follow_symlinks=False)
    project.makepyfile("def test_it(): pass")
    result = project.runpytest("--claims-json=shared/out.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"ERROR: --claims-json: {shared}/out.json cannot be written: is a link of nobody, in a folder that "
            "others can write to: remove it, or name another file"
        ]
    )
    assert ours.read_text() == "ours"
