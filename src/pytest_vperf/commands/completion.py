"""``vperf completion``: what makes a shell complete the words of ``vperf``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], whole: argparse.ArgumentParser
) -> None:
    """Add the command.

    Args:
        commands: where to.
        whole: the parser of all commands, which are completed.
    """
    parser = commands.add_parser(
        "completion",
        help="print what makes a shell complete commands, options and files",
        description="Prints a script for a shell, which then completes commands, options and names of files.",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(command=lambda arguments: run(whole, arguments.shell))


def run(whole: argparse.ArgumentParser, shell: str) -> int:
    """Print the script, and return the exit status."""
    import shtab

    sys.stdout.write(shtab.complete(whole, shell))
    return 0
