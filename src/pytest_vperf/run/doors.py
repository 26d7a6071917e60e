"""What plug-ins add to a run, by the hooks of `pytest_vperf.hookspecs`: gathered, and checked for what cannot be.

A package that is no pytest plug-in has an entry point of the group `GROUP` that names a module with such hooks. These
are loaded when the first test that claims is collected, or an option of ours is read: looking for entry points takes
some 10 ms, which a run without claims must not pay.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_vperf.reporting.ended import ExportFormat
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.run.sides import SideKey
    from pytest_vperf.targets.kinds import TargetKind
    from pytest_vperf.workloads.registry import Tool

T = TypeVar("T")

#: The name of our own plug-in.
_OURS = "vperf"
_LOADED: pytest.StashKey[bool] = pytest.StashKey()
#: Names that can be typed where they are used: after ``--claims-export=`` or ``--claims-head``, in ``VPERF_REQUIRE``.
_NAMES = {
    "engine of a fleet": r"[a-z][a-z0-9_-]*",
    "export format": r"[A-Za-z0-9][A-Za-z0-9_.+-]*",
    "kind of target": r"[a-z][a-z0-9_-]*",
    "key of a side": r"[a-z][a-z0-9_.]*",
    "tool": r"\w+",
}
#: The group of entry points; each is registered as a plug-in called ``pytest_vperf.NAME``.
GROUP = "pytest_vperf"


def load(config: pytest.Config) -> None:
    """Register the entry points of the group, once; where pytest loads no plug-in by itself, neither do we.

    Raises:
        pytest.UsageError: one cannot be imported.
    """
    if _LOADED in config.stash:
        return
    config.stash[_LOADED] = True
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") or config.getoption(
        "disable_plugin_autoload", False
    ):
        return
    plugins = config.pluginmanager
    for each in sorted(entry_points(group=GROUP)):
        name = f"{GROUP}.{each.name}"
        if plugins.is_blocked(name) or plugins.has_plugin(name):
            continue
        try:
            module = each.load()
        except Exception as error:  # whatever a module of others may raise
            package = f" of {each.dist.name}" if each.dist is not None else ""
            raise pytest.UsageError(
                f"the entry point {each.name} = {each.value}{package} cannot be loaded:"
                f" {type(error).__name__}: {error}; to do without it: -p no:{name}"
            ) from error
        if not plugins.is_registered(module):
            plugins.register(module, name)


def export_formats(config: pytest.Config) -> Mapping[str, ExportFormat]:
    """The formats of files that a run can write at its end, by name.

    Raises:
        pytest.UsageError: two have one name, or a hook gives something else.
    """
    from pytest_vperf.reporting.ended import ExportFormat

    return by_name(config, "pytest_vperf_export_formats", ExportFormat, "export format")


def tools(config: pytest.Config) -> Mapping[str, Tool]:
    """The measuring tools, by name.

    Raises:
        pytest.UsageError: two have one name, or a hook gives something else.
    """
    from pytest_vperf.workloads.registry import Tool

    return by_name(config, "pytest_vperf_tools", Tool, "tool")


def target_kinds(config: pytest.Config) -> Mapping[str, TargetKind]:
    """The kinds of targets, by name.

    Raises:
        pytest.UsageError: two have one name, or a hook gives something else.
    """
    from pytest_vperf.targets.kinds import TargetKind

    return by_name(config, "pytest_vperf_target_kinds", TargetKind, "kind of target")


def installed_kinds() -> list[TargetKind]:
    """The kinds of targets that packages add which are no pytest plug-ins, for commands outside of pytest.

    Raises:
        Exception: whatever a package raises when it is imported.
    """
    return [kind for hook in installed_hooks("pytest_vperf_target_kinds") for kind in hook()]


def installed_hooks(name: str) -> list[Callable[[], Iterable[Any]]]:
    """The hooks of a name that packages have which are no pytest plug-ins, for commands outside of pytest.

    Raises:
        Exception: whatever a package raises when it is imported.
    """
    modules = (each.load() for each in sorted(entry_points(group=GROUP)))
    return [hook for module in modules if (hook := getattr(module, name, None)) is not None]


def side_keys(config: pytest.Config) -> Mapping[str, SideKey]:
    """The keys that sides of a gate may have, by name.

    Raises:
        pytest.UsageError: two have one name, or a hook gives something else.
    """
    from pytest_vperf.run.sides import SideKey

    return by_name(config, "pytest_vperf_side_keys", SideKey, "key of a side")


def threshold_folders(config: pytest.Config) -> Sequence[Path]:
    """The folders of threshold files that plug-ins have.

    Raises:
        pytest.UsageError: one is not there, or a hook gives something else.
    """
    from pathlib import Path

    found = _gathered(config, "pytest_vperf_threshold_folders", Path)
    for plugin, folder in found:
        if not folder.is_dir():
            raise pytest.UsageError(
                f"pytest_vperf_threshold_folders of {plugin}: {folder} is not a folder"
            )
    return list(dict.fromkeys(folder for _, folder in found))


def tell_judged(config: pytest.Config, record: ClaimRecord) -> str:
    """Tell plug-ins of a claim that was judged; return what went wrong, empty if nothing did."""
    hook = config.hook.pytest_vperf_claim_judged
    if not hook.get_hookimpls():
        return ""
    from copy import deepcopy
    from traceback import extract_tb

    try:
        hook(record=deepcopy(record), config=config)  # nobody changes what was measured
    except pytest.exit.Exception:
        raise  # it ends the run, as it does anywhere
    except Exception as error:  # whatever a plug-in may raise; the run goes on
        place = extract_tb(error.__traceback__)[-1]
        return (
            f"pytest_vperf_claim_judged failed for {record['name']}: {type(error).__name__}: {error}"
            f" ({place.filename}:{place.lineno})"
        )
    return ""


def by_name(config: pytest.Config, hook: str, kind: type[T], called: str) -> dict[str, T]:
    """What plug-ins have of one kind, by name.

    Args:
        config: of the run.
        hook: that gives them.
        kind: of which all are.
        called: in messages.

    Raises:
        pytest.UsageError: two have one name, or a hook gives something else.
    """
    found: dict[str, tuple[str, T]] = {}
    for plugin, each in _gathered(config, hook, kind):
        name: str = vars(each)["name"]
        if not isinstance(name, str) or not re.fullmatch(_NAMES[called], name):
            raise pytest.UsageError(
                f"{hook} of {plugin}: no {called} can be called {name!r}: its name is to match {_NAMES[called]}"
            )
        if name in found:
            raise pytest.UsageError(
                f"two plug-ins, {found[name][0]} and {plugin}, have the {called} {name!r}: leave out one of them"
            )
        found[name] = (plugin, each)
    return {name: each for name, (_, each) in found.items()}


def _gathered(config: pytest.Config, hook: str, kind: type[T]) -> list[tuple[str, T]]:
    """What the plug-ins have, each with the plug-in's name: ours first, then in the order of their registration."""
    load(config)
    caller: Any = getattr(config.hook, hook)
    found: list[tuple[str, T]] = []
    for implementation in sorted(
        caller.get_hookimpls(), key=lambda each: str(each.plugin_name) != _OURS
    ):
        plugin = str(implementation.plugin_name)
        try:
            given = implementation.function()
        except Exception as error:  # whatever a plug-in may raise
            raise pytest.UsageError(
                f"{hook} of {plugin} failed: {type(error).__name__}: {error}"
            ) from error
        if given is None:
            continue
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise pytest.UsageError(f"{hook} of {plugin} gives {given!r}, not a list")
        for each in given:
            if not isinstance(each, kind):
                raise pytest.UsageError(
                    f"{hook} of {plugin} gives {each!r}, which is no {kind.__name__}"
                )
            found.append((plugin, each))
    return found
