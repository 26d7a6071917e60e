"""What plug-ins add by the hooks: the example of each hook, what is refused, and packages that are no plug-ins."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from installed_packages import package

from pytest_vperf import hookspecs
from pytest_vperf.run.doors import GROUP
from pytest_vperf.workloads.registry import Tool

if TYPE_CHECKING:
    from pathlib import Path

TEST = """
from samplers import around

def test_quick(claim): claim("start.quick").holds(around(100))
"""
HOOKS = {name: each for name, each in vars(hookspecs).items() if name.startswith("pytest_vperf_")}


def example(hook: str) -> str:
    """The conftest file in a hook's docstring."""
    text = inspect.getdoc(HOOKS[hook]) or ""
    _, _, code = text.partition(".. code-block:: python\n")
    return textwrap.dedent(code)


def play(project: pytest.Pytester, *options: str, test: str = TEST) -> pytest.RunResult:
    project.makepyfile(test_it=test)
    return project.runpytest("--claims-seed=1", "--claims-sessions=1", *options)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that are installed."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_each_hook_has_an_example_that_is_tried_here() -> None:
    tried = {each.removeprefix("test_example_of_") for each in globals() if "example_of" in each}
    assert tried == {name.removeprefix("pytest_vperf_") for name in HOOKS}
    assert all(example(name) for name in HOOKS)


def test_example_of_export_formats(project: pytest.Pytester) -> None:
    project.makeconftest(example("pytest_vperf_export_formats"))
    assert play(project, "--claims-export=verdicts=out.txt").ret == 0
    assert (project.path / "out.txt").read_text() == "holds start.quick\n"


@pytest.mark.parametrize("workers", [[], ["-n2", "-p", "xdist"]], ids=["alone", "xdist"])
def test_example_of_claim_judged(project: pytest.Pytester, workers: list[str]) -> None:
    project.makeconftest(example("pytest_vperf_claim_judged"))
    assert play(project, *workers).ret == 0
    assert (project.path / "judged.txt").read_text() == "start.quick holds\n"


def test_example_of_threshold_folders(project: pytest.Pytester) -> None:
    project.makeconftest(example("pytest_vperf_threshold_folders"))
    (limits := project.mkdir("limits")).joinpath("here.yaml").write_text(
        "hardware: {name: here, match: {logical_cpus: '>= 1'}}\nclaims: {start.quick: {at_most: 1 ms}}\n"
    )
    (limits / "more.yaml").write_text(
        "hardware: {name: more, match: {logical_cpus: '>= 1'}}\nclaims: {more.quick: {at_most: 400 ms}}\n"
    )
    assert play(project, "--hw=more", test=TEST.replace("start.quick", "more.quick")).ret == 0
    assert play(project, "--hw=here").ret == 0  # by the project's own file


def test_example_of_tools(project: pytest.Pytester) -> None:
    project.makeconftest(example("pytest_vperf_tools"))
    test = """
    class Nothing:
        def run(self, argv): pass

    def test_it(shell, bench):
        assert shell.start(Nothing()).unit == "ms"
    """
    assert play(project, test=textwrap.dedent(test)).ret == 0
    result = project.runpytest("--fixtures")
    result.stdout.fnmatch_lines(["shell -- *", "    The time a shell takes.", "sysbench -- *"])


def test_a_tool_that_is_called_like_another_one(project: pytest.Pytester) -> None:
    conftest = project.makeconftest(
        "from pytest_vperf import Tool\ndef pytest_vperf_tools(): return [Tool('fio', object)]\n"
    )
    result = play(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    wanted = f"two plug-ins, vperf and {conftest}, have the tool 'fio': leave out one of them"
    assert wanted in result.stderr.str()


@pytest.mark.parametrize(
    ("returned", "message"),
    [("3", "gives 3, not a list"), ("['fio']", "gives 'fio', which is no Tool")],
)
def test_what_is_no_tool(project: pytest.Pytester, returned: str, message: str) -> None:
    conftest = project.makeconftest(f"def pytest_vperf_tools(): return {returned}")
    result = play(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"pytest_vperf_tools of {conftest} {message}" in result.stderr.str()


def test_a_hook_for_tools_that_fails(project: pytest.Pytester) -> None:
    conftest = project.makeconftest("def pytest_vperf_tools(): return 1 / 0")
    result = play(project)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    wanted = f"pytest_vperf_tools of {conftest} failed: ZeroDivisionError: division by zero"
    assert wanted in result.stdout.str()


def test_a_tool_that_cannot_be_a_fixture() -> None:
    with pytest.raises(
        ValueError, match=r"^a tool is called 'stress-ng', which cannot be a fixture's name$"
    ):
        Tool("stress-ng", str)
    with pytest.raises(ValueError, match=r"^packages of the tool fio is 'fio', not a tuple$"):
        Tool("fio", str, packages="fio")  # type: ignore[arg-type]


def test_example_of_target_kinds(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", "chroot")
    project.makeconftest(example("pytest_vperf_target_kinds"))
    if os.geteuid() != 0:
        project.makefile("", chroot='#!/bin/sh\nshift; exec "$@"\n').chmod(0o755)
        monkeypatch.setenv("PATH", str(project.path), prepend=os.pathsep)
    test = """
    from pytest_vperf import CommandFailed, Quantity, TargetError
    import pytest, time

    def test_files(chroot, tmp_path):
        (tmp_path / "a").write_bytes(b"x" * (33 << 20))
        chroot.put(tmp_path / "a", str(tmp_path / "b"))
        chroot.get(str(tmp_path / "b"), tmp_path / "c")
        assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes()
        with pytest.raises(TargetError, match="has more than 1 MiB: give get"):
            chroot.get(str(tmp_path / "b"), tmp_path / "c", limit=1 << 20)
        for path, why in {"c": "is not an absolute path", "/none": "No such file", "/": "regular"}.items():
            with pytest.raises(TargetError, match=why):
                chroot.get(path, tmp_path / "d")
        with pytest.raises(TargetError, match="No such file|nonexistent"):
            chroot.put(tmp_path / "a", "/none/a")
        with pytest.raises(CommandFailed):
            chroot.run(["false"])

    def test_it(claim, chroot):
        def sample():
            began = time.monotonic()
            chroot.run(["true"])
            return Quantity((time.monotonic() - began) * 1e3, "ms", direction="lower")
        claim("start.quick").holds(sample)
    """
    result = play(project, "--claims-json=out.json", test=textwrap.dedent(test))
    assert result.ret == 0, result.stdout.str()
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert [each["kind"] for each in record["targets"]] == ["chroot"]


def test_a_required_kind_of_a_plugin_that_is_not_measured(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", "chroot")
    conftest = project.makeconftest(
        "from pytest_vperf import TargetKind\n"
        "def pytest_vperf_target_kinds(): return [TargetKind('chroot')]\n"
    )
    result = play(project)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*VPERF_REQUIRE*chroot*"])
    conftest.unlink()
    result = play(project)
    wanted = "'chroot' is not known; there are host, container, pod, guest, domu and all"
    assert wanted in result.stderr.str()


def test_what_killed_runs_left_of_such_targets_is_removed(
    project: pytest.Pytester, tmp_path: Path
) -> None:
    (tmp_path / "left").touch()
    project.makeconftest(
        f"""
        from pathlib import Path
        from pytest_vperf import Leftover, TargetKind

        LEFT = Path({str(tmp_path)!r}, "left")

        def take_away():
            LEFT.unlink()
            return ""

        def find():
            return [Leftover("01234567", "container", "container x", take_away)] if LEFT.exists() else []

        def pytest_vperf_target_kinds():
            return [TargetKind("chroot", leftovers=find)]
        """
    )
    play(project, test="def test_it(vperf_run): pass")
    assert not (tmp_path / "left").exists()


def test_example_of_fleet_engines(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pytest_reportlog")
    project.makeconftest(example("pytest_vperf_fleet_engines"))
    project.makefile("", docker='#!/bin/sh\nshift 3; exec "$@"\n').chmod(0o755)
    monkeypatch.setenv("PATH", str(project.path), prepend=os.pathsep)
    fleet = f"engine: containers\npython: {sys.executable}\nhosts: {{c1: type-a}}\n"
    (project.path / "fleet.yaml").write_text(fleet)
    result = play(project, "--claims-fleet=fleet.yaml", "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["?c1? *HELD test_it.py::test_quick*"])


def test_example_of_side_keys(project: pytest.Pytester) -> None:
    project.makeconftest(example("pytest_vperf_side_keys"))
    for name, value in {"old": 10, "new": 99}.items():
        program = project.path / name
        program.write_text(f"#!/bin/sh\necho {value}\n")
        program.chmod(0o755)
    test = """
    from pytest_vperf import Quantity
    from samplers import around

    noise = around(1)

    def test_awk(claim, awk):
        claim("start.quick").holds(lambda: Quantity(float(awk("BEGIN {}")) * noise().value, "ms"))

    def test_of_no_side(claim, containers):
        claim("start.quick").holds(lambda: 1)
    """
    result = play(
        project, "--claims-base=awk=./old", "--claims-head=awk=./new", test=textwrap.dedent(test)
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"claims: base: awk={project.path}/old (sha256 *)",
            "claims: 1 test left out, whose targets do not depend on awk",
            "start.quick is slower on head than on base: *",
        ]
    )


@pytest.mark.parametrize("group", [GROUP, "pytest11"])
def test_a_package_adds_a_format(project: pytest.Pytester, packages: Path, group: str) -> None:
    package(packages, "verdicts", example("pytest_vperf_export_formats"), group=group)
    project.makepyfile(test_it=TEST)
    result = project.runpytest_subprocess("--claims-export=verdicts=out.txt", "--claims-sessions=1")
    assert result.ret == 0, result.stdout.str()
    assert (project.path / "out.txt").read_text() == "holds start.quick\n"


def test_a_package_that_is_no_plugin_has_fixtures(project: pytest.Pytester, packages: Path) -> None:
    package(packages, "slow", "import pytest\n@pytest.fixture\ndef slowness(): return 900\n")
    test = "from samplers import around\ndef test_it(claim, slowness): claim('start.quick').holds(around(slowness))"
    assert play(project, test=test).ret == 1


def test_a_run_without_claims_looks_for_no_package(
    project: pytest.Pytester, packages: Path
) -> None:
    package(packages, "loud", "raise RuntimeError('loaded')")
    project.makepyfile("def test_it(): pass")
    project.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize("option", [["--claims-seed=2"], []], ids=["option", "test"])
def test_a_package_that_cannot_be_loaded_is_named(
    project: pytest.Pytester, packages: Path, option: list[str]
) -> None:
    package(packages, "loud", "raise RuntimeError('no such machine')")
    project.makepyfile(test_it=TEST)
    result = project.runpytest_subprocess(*option)
    assert result.ret != 0
    text = result.stdout.str() + result.stderr.str()
    wanted = (
        "the entry point of_loud = loud of loud cannot be loaded: RuntimeError: no such machine; "
        "to do without it: -p no:pytest_vperf.of_loud"
    )
    assert wanted in text
    assert play(project, "-p", "no:pytest_vperf.of_loud").ret == 0


def test_without_plugins_of_others_none_is_loaded(
    project: pytest.Pytester, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(packages, "loud", "raise RuntimeError('loaded')")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = play(project, "-p", "pytest_vperf.plugin")
    assert result.ret == 0, result.stdout.str()


CONFTEST = "from pytest_vperf import ExportFormat\ndef pytest_vperf_export_formats(): return {}"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            "[ExportFormat('markdown', str)]",
            "two plug-ins, vperf and {conftest}, have the export format 'markdown': leave out one of them",
        ),
        ("ExportFormat('mine', str)", "pytest_vperf_export_formats of {conftest} gives ExportFormat(*, not a list"),
        ("['mine']", "pytest_vperf_export_formats of {conftest} gives 'mine', which is no ExportFormat"),
        ("1 / 0", "pytest_vperf_export_formats of {conftest} failed: ZeroDivisionError: division by zero"),
        (
            "[ExportFormat('a=b', str)]",
            "pytest_vperf_export_formats of {conftest}: no export format can be called 'a=b':"
            " its name is to match [A-Za-z0-9][A-Za-z0-9_.+-]*",
        ),
        ("[]", "--claims-export: there is no format 'makrdown'; did you mean 'markdown'?"),
        (
            "[ExportFormat('makrdown', str)][1:]",
            "--claims-export: there is no format 'makrdown'; did you mean 'markdown'?",
        ),
    ],
)  # fmt: skip
def test_what_a_plugin_must_not_add(project: pytest.Pytester, returned: str, message: str) -> None:
    conftest = project.makeconftest(CONFTEST.format(returned))
    result = play(project, "--claims-export=makrdown=out.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    wanted = re.escape(message.format(conftest=conftest)).replace(r"\*", ".*")
    assert re.search(wanted, result.stderr.str()), result.stderr.str()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--claims-export=out.md"], "'out.md' is not FORMAT=FILE, such as markdown=claims.md"),
        (["--claims-export=markdown="], "'markdown=' is not FORMAT=FILE, such as markdown=claims.md"),
        (
            ["--claims-export=pdf=out.pdf"],
            "there is no format 'pdf'; the formats are codequality, html, markdown, openmetrics",
        ),
        (
            ["--claims-json=out.md", "--claims-export=markdown=out.md"],
            "{path}/out.md is already the file of --claims-json",
        ),
    ],
)  # fmt: skip
def test_an_export_that_cannot_be(
    project: pytest.Pytester, options: list[str], message: str
) -> None:
    result = play(project, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --claims-export: {message.format(path=project.path)}" in result.stderr.str()


def test_a_format_that_fails_ends_the_run_with_an_error(project: pytest.Pytester) -> None:
    project.makeconftest(CONFTEST.format("[ExportFormat('mine', lambda run: run.nothing)]"))
    result = play(project, "--claims-export=mine=out.txt")
    assert result.ret == 74
    result.stdout.fnmatch_lines(
        [f"claims: {project.path}/out.txt cannot be written: AttributeError: *nothing*"]
    )


def test_a_plugin_that_fails_with_a_claim_ends_the_run_with_an_error(
    project: pytest.Pytester,
) -> None:
    conftest = project.makeconftest(
        "def pytest_vperf_claim_judged(record):\n    record.clear()\n    raise OSError('no dashboard')\n"
    )
    result = play(project, "--claims-json=out.json")
    assert result.ret == 74
    wanted = (
        f"pytest_vperf_claim_judged failed for start.quick: OSError: no dashboard ({conftest}:3)"
    )
    assert wanted in result.stdout.str()
    assert '"start.quick"' in (project.path / "out.json").read_text()


def test_what_a_format_does_to_a_record_no_other_one_sees(project: pytest.Pytester) -> None:
    conftest = """
        def worse(run):
            run.claims[0]["verdict"] = "refuted"
            return ""
        def verdict(run): return run.claims[0]["verdict"]
        def pytest_vperf_export_formats(): return [ExportFormat("a", worse), ExportFormat("b", verdict)]
    """
    project.makeconftest(f"from pytest_vperf import ExportFormat\n{textwrap.dedent(conftest)}")
    play(project, "--claims-export=a=a.txt", "--claims-export=b=b.txt", "--claims-json=out.json")
    assert (project.path / "b.txt").read_text() == "holds"
    assert json.loads((project.path / "out.json").read_text())["claims"][0]["verdict"] == "holds"


def test_a_plugin_may_end_the_run_at_a_claim(project: pytest.Pytester) -> None:
    project.makeconftest(
        "import pytest\ndef pytest_vperf_claim_judged(record): pytest.exit('seen enough')\n"
    )
    result = play(project, test=f"{TEST}\ndef test_more(): pass")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["holds *start.quick*", "*Exit: seen enough*"])


def test_a_folder_of_thresholds_that_is_not_there(project: pytest.Pytester) -> None:
    conftest = project.makeconftest(
        "from pathlib import Path\ndef pytest_vperf_threshold_folders(): return [Path('/nowhere')]"
    )
    result = play(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    wanted = f"pytest_vperf_threshold_folders of {conftest}: /nowhere is not a folder"
    assert wanted in result.stderr.str()


def test_the_hooks_are_plain_functions_of_this_version() -> None:
    assert sys.modules["pytest_vperf.hookspecs"] is hookspecs
    assert len(HOOKS) >= 4
