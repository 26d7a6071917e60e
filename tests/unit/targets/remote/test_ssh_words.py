"""How a machine is named for ssh, and that a command's arguments arrive unchanged."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vperf.targets.remote.connection import KEEPS_TO_ITSELF, parse_url, remote_line

if TYPE_CHECKING:
    from pathlib import Path

WORDS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ssh://load", ["load"]),
        ("ssh://me@load.example:2222", ["-p", "2222", "-l", "me", "load.example"]),
        ("ssh://Load", ["Load"]),
        ("ssh://[::1]", ["::1"]),
        ("ssh://[2001:db8::1]:22/", ["-p", "22", "2001:db8::1"]),
    ],
)
def test_url_is_words_for_ssh(url: str, words: list[str]) -> None:
    assert parse_url(url) == words


@pytest.mark.parametrize(
    "url",
    [
        "load",
        "http://load",
        "ssh://",
        "ssh://-oProxyCommand=x",
        "ssh://-x@load",
        "ssh://load:port",
        "ssh://load:99999",
        "ssh://me:secret@load",
        "ssh://load/path",
        "ssh://lo ad",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not ssh://\[user@\]host\[:port\]"):
        parse_url(url)


@settings(max_examples=examples(30))
@given(st.lists(WORDS, max_size=4))
def test_arguments_arrive_unchanged(words: list[str]) -> None:
    line = remote_line(["printf", "%s|", "first", *words], {"A": "b c"}, "/", "mark")
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
    assert done.stdout == "".join(f"{word}|" for word in ["first", *words]).encode()


def test_status_of_a_lost_connection_is_marked_where_it_is_the_commands_own() -> None:
    for status, mark in ((255, b"mark"), (3, b""), (0, b"")):
        line = remote_line(["sh", "-c", f"exit {status}"], {}, None, "mark")
        done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (status, mark)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh")
def test_nothing_of_this_machine_is_lent_whatever_the_users_settings_are(tmp_path: Path) -> None:
    """``ssh -G`` prints the resulting settings."""
    lent = ("forwardagent", "forwardx11", "gssapidelegatecredentials", "permitlocalcommand")
    settings = "".join(f"{name} yes\n" for name in lent)
    (tmp_path / "config").write_text(f"{settings}tunnel ethernet\nremoteforward 1 127.0.0.1:2\n")
    argv = ["ssh", "-F", str(tmp_path / "config"), *KEEPS_TO_ITSELF, "-G", "there"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {f"{name} no" for name in lent} <= set(said)
    assert "tunnel false" in said
    assert not any(line.startswith("remoteforward") for line in said)
