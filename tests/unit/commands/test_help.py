"""The help of every command, the man page, and the completion of shells: one parser, three ways to read it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import manpage
import pytest

from pytest_vperf import cli
from pytest_vperf.commands import completion, help

COMMANDS = dict(help.commands(cli.parser()))
EXAMPLES = [words for examples in help.EXAMPLES.values() for _, words in examples]


def test_every_command_has_examples_and_nothing_else_has() -> None:
    assert list(COMMANDS) == list(dict.fromkeys(COMMANDS))
    assert COMMANDS.keys() == help.EXAMPLES.keys()
    for name, command in COMMANDS.items():
        shown = command.format_help()
        for wanted, words in help.EXAMPLES[name]:
            assert f"\n  # {wanted}\n  {words}\n" in shown
            assert name in words or name == "vperf"


@pytest.mark.parametrize("words", [each for each in EXAMPLES if "vperf" in each])
def test_an_example_is_understood(words: str) -> None:
    found = re.search(r"vperf [^>)]*", words)
    assert found is not None
    given, _ = cli._split_command(shlex.split(found[0])[1:])
    assert callable(cli.parser().parse_args(given).command)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told, _, _ = COMMANDS[name].format_help().partition("examples:")
    # Usages that were written by hand have an option or two more.
    assert max(map(len, told.partition("\n\n")[2].splitlines())) <= 80


def test_the_man_page_has_every_command_and_option() -> None:
    page = manpage.PLACE.read_text(encoding="utf-8")
    plain = page.replace("\\-", "-").replace("\\(aq", "'")
    for command in COMMANDS.values():
        for action in command._actions:
            for option in action.option_strings:
                assert f"\\fB{option}\\fR" in plain or option in ("-h", "--help")
    for words in EXAMPLES:
        assert f"\n{words}\n" in plain


# argparse words some things differently from one version of Python to the next.
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page is made with Python 3.11")
def test_the_man_page_is_that_of_the_parser() -> None:
    assert manpage.PLACE.read_text(encoding="utf-8") == manpage.page(), (
        "python script/manpage.py writes docs/vperf.1 anew"
    )


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("vperf doc", ["doctor"]),
        ("vperf lab st", ["status"]),
        ("vperf clean --d", ["--dry-run"]),
        ("vperf completion z", ["zsh"]),
    ],
)
def test_bash_completes_words(
    typed: str, offered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", "bash"]) == 0
    words = typed.split()
    script = capsys.readouterr().out + (
        f"\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _shtab_vperf; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


def test_what_is_for_ourselves_is_not_completed(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in completion.SHELLS:
        assert cli.main(["completion", shell]) == 0
        assert "bisect-step" not in capsys.readouterr().out


def test_an_unknown_shell_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["completion", "fish"])
    assert stop.value.code == 2
    assert "choose from" in capsys.readouterr().err
