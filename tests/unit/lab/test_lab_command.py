"""``vperf lab`` while no lab is up, and the option ``--vperf-lab``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf import cli

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))


def test_ssh_says_how_to_start_a_lab_that_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "ssh", "kvm", "--", "true"]) == 1
    assert capsys.readouterr().err == (
        "vperf lab ssh: lab kvm is not up (to start it: vperf lab up kvm)\n"
    )


def test_down_names_labs_that_are_not_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "down", "xen"]) == 0
    assert capsys.readouterr().out == "lab xen: was not up\n"
    assert cli.main(["lab", "down"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["down", "vmware"], "there is no lab 'vmware'; there are: kvm, xen"),
        (["up", "vmware"], "invalid choice: 'vmware'"),
        (["up", "kvm", "--memory=1"], "'1' is not a whole number from 1024 to 1048576"),
        (["up", "kvm", "--vcpus=all"], "'all' is not a whole number from 1 to 64"),
        ([], "COMMAND"),
    ],
)
def test_bad_arguments_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["lab", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


SHOWS = """
    from pytest_vperf.run.stash import claims_session
    def test_it(request):
        print(f"labs: {claims_session(request.config).settings.labs}")
"""


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), "()"),
        (("--vperf-lab=xen,kvm",), "('xen', 'kvm')"),
        (("--vperf-lab=xen", "--vperf-lab=kvm", "--vperf-lab=xen"), "('xen', 'kvm')"),
        (("-o", "vperf_lab=kvm"), "('kvm',)"),
        (("-o", "vperf_lab=kvm", "--vperf-lab=xen"), "('xen',)"),
    ],
)
def test_labs_are_chosen_by_option(
    pytester: pytest.Pytester, options: tuple[str, ...], shown: str
) -> None:
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest("-s", *options)
    result.stdout.fnmatch_lines([f"*labs: {shown}*"])


def test_unknown_lab_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest("--vperf-lab=kvm,vmware")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --vperf-lab: there is no lab 'vmware'; there are: kvm, xen"]
    )
