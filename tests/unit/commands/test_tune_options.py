"""`vperf doctor --tune` on the command line: valid combinations of options, and the doctor's answer about noise."""

import json

import pytest

from pytest_vperf.cli import main
from pytest_vperf.commands import doctor
from pytest_vperf.machine.noise_warnings import look


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--apply"], "--apply and --also belong to --tune"),
        (["--also=smt"], "--apply and --also belong to --tune"),
        (["--tune", "pod"], "--tune goes with --apply, --also and `-- COMMAND` only"),
        (["--tune", "--json"], "--tune goes with --apply, --also and `-- COMMAND` only"),
        (["--tune", "--", "make"], "a COMMAND is run with --apply only"),
        (["--tune", "--also=smt,swap"], "--also: 'swap' is not known; there are: aslr, smt"),
    ],
)
def test_contradicting_options_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["doctor", *arguments])
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith(f"vperf doctor: error: {said}\n")


def test_names_after_two_dashes_are_still_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "host", "--", "noise"]) == 0
    answers = json.loads(capsys.readouterr().out)["checks"]
    assert [answer["name"] for answer in answers] == ["host", "noise"]


def test_two_dashes_are_left_to_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["clean", "--", "everything"])
    assert stop.value.code == 2


def test_noise_makes_nothing_unusable(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run(["noise"]) == 0
    out = capsys.readouterr().out
    row = out.splitlines()[2].split()
    assert row[:2] in (["noise", "noisy"], ["noise", "quiet"])
    assert ("vperf doctor --tune" in out) == (row[1] == "noisy")
    lasting = [each.name for each in look() if each.by_command]
    assert all(name in " ".join(out.split()) for name in lasting)
