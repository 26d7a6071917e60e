"""The man page of vperf, made from the parser of its command line: ``python script/manpage.py`` writes docs/vperf.1.

A wheel has it as share/man/man1/vperf.1, so that ``man vperf`` finds it in an environment whose programs are found.
"""

from __future__ import annotations

import os
from pathlib import Path

from argparse_manpage.manpage import Manpage

from pytest_vperf import __version__, cli
from pytest_vperf.commands import help

PLACE = Path(__file__).parent.parent / "docs" / "vperf.1"


def page() -> str:
    """The page, in roff."""
    os.environ["COLUMNS"] = "80"  # what argparse wraps usages at
    parser = cli.parser()
    for _, command in help.commands(parser):
        # Of commands the page has the description alone.
        texts = (command.description, help.told(command))
        command.description = "\n\n".join(filter(None, texts))
        command.epilog = None
    made = Manpage(parser, format="single-commands-section")
    made.date = ""
    made.source = f"pytest-vperf {__version__}"
    made.manual = "pytest-vperf"
    made.description = "measure claims about containers and virtual machines"
    made.add_section("examples", "=", "\n".join(_examples()))
    made.add_section(
        "see also", "=", "pytest(1), whose options --claims-… are listed by\n.B pytest \\-\\-help"
    )
    return str(made)


def _examples() -> list[str]:
    lines = []
    for examples in help.EXAMPLES.values():
        for wanted, words in examples:
            lines += [".PP", _roff(wanted), ".PP", ".RS 4", ".nf", _roff(words), ".fi", ".RE"]
    return lines


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return escaped if not escaped.startswith(".") else f"\\&{escaped}"


if __name__ == "__main__":
    PLACE.write_text(page(), encoding="utf-8")
