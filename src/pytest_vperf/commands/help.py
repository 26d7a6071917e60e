"""What is the same in the help of every command: its examples, and how they are shown.

The man page (``script/manpage``) and the completion of a shell are made from the same parser.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: By command: what somebody wants, and the words that do it.
EXAMPLES: Mapping[str, Sequence[tuple[str, str]]] = {
    "vperf": (
        ("What can be measured here, and what is missing?", "vperf doctor"),
        ("Run the claims about starts; this is pytest's business.", "pytest -m startup"),
        ("Read the verdicts of a run again.", "vperf claims run.json"),
    ),
    "vperf doctor": (
        ("Check everything.", "vperf doctor"),
        ("Can pods be started here, with KVM?", "vperf doctor pod kvm"),
        ("Can the machines of a fleet start containers?", "vperf doctor --fleet fleet.yaml container"),
        ("Quieten this machine while a run lasts.", "vperf doctor --tune --apply -- pytest -m startup"),
    ),
    "vperf selfcheck": (
        ("Check all metrics whose claims are about starts.", "vperf selfcheck 'startup.*'"),
        ("Check one quickly, in the tests of this folder.", "vperf selfcheck my.start --budget '1 min' -- tests"),
    ),
    "vperf calibrate": (
        ("Have limits for this machine, from five runs.", "vperf calibrate --hw my-laptop"),
        ("Of the claims about starts alone, from ten runs.", "vperf calibrate --hw my-laptop --runs 10 -m startup"),
    ),
    "vperf claims": (
        ("What do the tests here claim?", "vperf claims"),
        ("The verdicts of a run, on a page.", "vperf claims run.json --markdown --output claims.md"),
        ("One claim, whether or not a test here names it.", "vperf claims -k startup.pod.total"),
    ),
    "vperf gallery": (
        ("What do other projects claim, and what lacks here?", "vperf gallery"),
        ("With the verdicts of a run.", "vperf gallery gallery.json"),
        (
            "As a page, with links to the pictures of a report.",
            "vperf gallery gallery.json --markdown --pictures=report.html --output=gallery.md",
        ),
    ),
    "vperf compare": (
        ("The last run with the one before.", "vperf compare last~1 last"),
        ("The runs of two commits, one claim.", "vperf compare v1.0 main -k my.start"),
    ),
    "vperf history": (
        ("When did any level change?", "vperf history"),
        ("One claim over its last 50 runs, with a plot.", "vperf history my.start --last 50"),
    ),
    "vperf bisect": (
        (
            "Which commit made a start slower?",
            "vperf bisect --claim my.start --good v1.0 --bad main --build 'make -j2' --artefact ./runtime",
        ),
    ),
    "vperf gate": (
        (
            "Is this branch slower than main?",
            "vperf gate --base origin/main --build 'make -j2' --artefact ./runtime -- -m gate",
        ),
    ),
    "vperf report": (
        ("A page with pictures of a run.", "vperf report run.json -o report.html"),
        ("Of several runs, whose history it shows.", "vperf report monday.json tuesday.json -o report.html"),
    ),
    "vperf comment": (
        ("Put a gate's page into the pull request.", "vperf comment gate.md"),
    ),
    "vperf lab": (
        ("Build and start a host with KVM.", "vperf lab up kvm"),
    ),
    "vperf lab build": (
        ("Build both, for a machine that will be offline.", "vperf lab build kvm xen"),
    ),
    "vperf lab up": (
        ("A host with Xen and more memory.", "vperf lab up --memory 8192 xen"),
    ),
    "vperf lab status": (
        ("Which are up?", "vperf lab status"),
    ),
    "vperf lab ssh": (
        ("Run a command on a host.", "vperf lab ssh kvm -- virsh list"),
    ),
    "vperf lab down": (
        ("End all that are up.", "vperf lab down"),
    ),
    "vperf clean": (
        ("What did killed runs leave?", "vperf clean --dry-run"),
        ("Remove it, and end labs that are up.", "vperf clean --labs"),
    ),
    "vperf schema": (
        ("Have an editor check threshold files.", "vperf schema --output thresholds/schema.json"),
    ),
    "vperf completion": (
        ("For bash, in ~/.bashrc.", 'eval "$(vperf completion bash)"'),
        ("For zsh, in a folder of fpath.", "vperf completion zsh > ~/.zfunc/_vperf"),
    ),
}  # fmt: skip
_HEAD = "examples:"


class _Formatter(argparse.HelpFormatter):
    """Keeps paragraphs apart, and examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        told, head, examples = text.partition(_HEAD)
        fill = super()._fill_text
        parts = [fill(part, width, indent) for part in told.split("\n\n") if part.strip()]
        return "\n\n".join([*parts, f"{head}{examples}".rstrip()] if head else parts)


def complete(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add to each command what they have in common: examples below the help, and which words are files.

    Raises:
        KeyError: a command has no examples.
    """
    import shtab

    for name, command in commands(parser):
        lines = [f"  # {wanted}\n  {words}" for wanted, words in EXAMPLES[name]]
        command.epilog = "\n\n".join(
            filter(None, [command.epilog, f"{_HEAD}\n" + "\n".join(lines)])
        )
        command.formatter_class = _Formatter
        for action in command._actions:
            kind: Any = action
            if action.metavar in ("FILE", "RECORD", "PATH", "[KEY=]PATH"):
                kind.complete = shtab.FILE
            elif action.metavar in ("DIR", "FOLDER", "DIR|URL"):
                kind.complete = shtab.DIRECTORY
    return parser


def told(command: argparse.ArgumentParser) -> str:
    """What the help says below the options, without the examples."""
    return (command.epilog or "").partition(_HEAD)[0].strip()


def commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser and those of all commands that the help names, with what they are called: ``vperf lab up``."""
    yield parser.prog, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for shown in action._choices_actions:  # others are for ourselves
                yield from commands(action.choices[shown.dest])
