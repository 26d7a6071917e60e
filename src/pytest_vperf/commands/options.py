"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_build_options(parser: argparse.ArgumentParser, builds: str, of: str) -> None:
    """Add those of a command that builds trees of a repository.

    Args:
        parser: the command's.
        builds: what is built at a time.
        of: whose repository it is.
    """
    parser.add_argument(
        "--build",
        metavar="COMMAND",
        required=True,
        help=f"builds {builds}, in a shell, in its root",
    )
    parser.add_argument(
        "--artefact",
        metavar="[KEY=]PATH",
        required=True,
        help="what the build makes, a file or a folder, seen from that root, and the setting of --claims-head that "
        "it is: kernel=arch/x86/boot/bzImage, env.TOOL=./tool (default KEY: runtime)",
    )
    parser.add_argument(
        "--repository",
        metavar="DIR",
        type=Path,
        default=Path(),
        help=f"of {of} (default: this folder)",
    )


def add_reading_options(parser: argparse.ArgumentParser, json: str) -> None:
    """Add those of a command that reads stored runs: the store, and the form of the answer.

    Args:
        parser: the command's.
        json: the help of ``--json``.
    """
    parser.add_argument(
        "--store",
        metavar="DIR|URL",
        help="where runs are kept (default: that of the ini setting claims_store, or .vperf)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="write Markdown")
    form.add_argument("--json", action="store_true", help=json)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it to FILE")


def check_reading_options(arguments: argparse.Namespace) -> None:
    """End with a usage error if a file is named for what is a table of the terminal."""
    if arguments.output is not None and not (arguments.markdown or arguments.json):
        arguments.fail("--output goes with --markdown or --json")
