"""Tables in a pipe: nothing cut, nothing read as markup, no colour."""

import pytest

from pytest_vperf.reporting.console import print_table


def _printed(capsys: pytest.CaptureFixture[str], *rows: tuple[str, ...]) -> list[str]:
    print_table(("name", "why"), rows)
    return capsys.readouterr().out.splitlines()


def test_rows_stand_below_their_headings(capsys: pytest.CaptureFixture[str]) -> None:
    assert _printed(capsys, ("pod", "no kernel"), ("accelerator kvm", "ok")) == [
        "name              why",
        "───────────────────────────",
        "pod               no kernel",
        "accelerator kvm   ok",
    ]


def test_a_long_reason_is_on_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    reason = " ".join(f"word{number}" for number in range(60))
    lines = _printed(capsys, ("pod", reason))
    assert lines[2:] == [f"pod    {reason}"]


def test_a_word_longer_than_the_line_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    word = "x" * 500
    lines = _printed(capsys, ("pod", word))
    assert lines[2:] == [f"pod    {word}"]


def test_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "pytest-vperf[libvirt] [red]" in _printed(capsys, ("a", "pytest-vperf[libvirt] [red]"))[2]
    )
