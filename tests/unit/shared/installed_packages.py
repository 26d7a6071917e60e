"""Packages of others, as pip would have installed them: a module and its entry point."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pytest_vperf.run.doors import GROUP

if TYPE_CHECKING:
    from pathlib import Path


def package(folder: Path, name: str, module: str, *, group: str = GROUP, entry: str = "") -> Path:
    """Put a package into a folder that Python looks into.

    Args:
        folder: the packages are here.
        name: of the package, and of its module.
        module: the module's text.
        group: of its entry point.
        entry: the entry point's name; empty: ``of_`` and the package's.

    Returns:
        The module.
    """
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(module))
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\n{entry or f'of_{name}'} = {name}\n")
    return path
