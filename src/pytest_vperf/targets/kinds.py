"""The kinds of targets, in one table; plug-ins add theirs by `pytest_vperf.hookspecs.pytest_vperf_target_kinds`.

A kind is its fixtures, which start such targets, and what others have to know of them, which is here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_vperf.machine.leftovers import Leftover
    from pytest_vperf.machine.preflight import Readiness


@dataclass(frozen=True)
class TargetKind:
    """A kind of target.

    Attributes:
        name: in ``Facts.kind``, and the first word of the targets' names.
        fixtures: those that start such targets. A gate whose keys none of a test's fixtures depends on leaves out a
            test that uses one of them.
        own_clock: whether such a target has a clock of its own: tools time themselves, so it is compared with the
            host's first.
        may_be_required: whether ``VPERF_REQUIRE`` may name it.
        starter: the class of what starts targets to fill a host with, by ``density(…)``; or ``module:name`` of it.
        fill: how a host is filled with them: makes a `pytest_vperf.density.kinds.Kind` of a starter, the run, the
            scope and the limit of their memory; or ``module:name`` of it. Empty: no host is filled with them.
        check: for ``vperf doctor``: whether such targets can be started here.
        leftovers: what killed runs left of them, besides what is in the run's folder, its processes and its control
            group; removed at the beginning of a run, and by ``vperf clean``.
    """

    name: str
    fixtures: frozenset[str] = frozenset()
    own_clock: bool = False
    may_be_required: bool = True
    starter: type | str = ""
    fill: Callable[..., Any] | str = ""
    check: Callable[[], Sequence[Readiness]] | None = None
    leftovers: Callable[[], Iterable[Leftover]] | None = None

    def starts(self, starter: object) -> bool:
        """Whether a thing starts targets of this kind to fill a host with."""
        kind = _named(self.starter) if isinstance(self.starter, str) else self.starter
        return kind is not None and isinstance(starter, kind)

    def filling(self, *arguments: Any) -> Any:
        """What a host is filled with, see ``fill``."""
        fill = _named(self.fill) if isinstance(self.fill, str) else self.fill
        return fill(*arguments)


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name) if place else None


#: Our own.
KINDS = (
    TargetKind("host", frozenset({"_vperf_native"})),
    TargetKind(
        "container",
        frozenset({"containers_with", "oci"}),
        starter="pytest_vperf.targets.container.containers:Containers",
        fill="pytest_vperf.density.kinds:of_containers",
    ),
    TargetKind(
        "pod",
        frozenset({"pods_on"}),
        own_clock=True,
        starter="pytest_vperf.targets.pod.pods:Pods",
        fill="pytest_vperf.density.kinds:of_pods",
    ),
    TargetKind(
        "guest",
        frozenset({"guests_on", "kernels"}),
        own_clock=True,
        starter="pytest_vperf.targets.guest.guests:Guests",
        fill="pytest_vperf.density.kinds:of_guests",
    ),
    TargetKind(
        "domu",
        frozenset({"domus"}),
        own_clock=True,
        starter="pytest_vperf.targets.xen.domus:Domus",
        fill="pytest_vperf.density.kinds:of_domus",
    ),
    # Known by SSH alone: it may be of any kind, and users name it.
    TargetKind("machine", frozenset({"machine"}), own_clock=True, may_be_required=False),
)
