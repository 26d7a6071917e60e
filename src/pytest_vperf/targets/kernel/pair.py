"""Two kernels for the same kind of machine: the one in question, and the one it is compared with.

A machine's performance does not depend on its kernel alone. The placement of the kernel and its data in memory is
random at each start (KASLR; which pages of the host it gets) and fixed until the next: two machines with the *same*
kernel can differ for as long as they run, however often they are sampled. So a comparison needs many starts:
`Kernels.running` gives machines that are restarted after some samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.targets.base import Facts, Started, Target

#: Samples per machine before it is replaced.
SAMPLES = 4


class Starter(Protocol):
    """Starts machines of one kind with one kernel; owned by a scope, they end with the sample that started them."""

    @property
    def start(self) -> Callable[..., Any]:
        """Start one and wait until it is ready."""
        ...


class NotNamed:
    """A starter that only raises `Unavailable`, because no kernel to compare was named.

    Args:
        kind: of machine, e.g. ``pod.tcg``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def start(self, **_: Any) -> NoReturn:
        """Raise an error with the missing option.

        Raises:
            Unavailable: always.
        """
        raise Unavailable(
            "no kernel to compare was named",
            remedy="--vperf-kernel=FILE, and --baseline-kernel=FILE unless it is compared with the default kernel",
            target=self._kind.replace(".", " "),
        )


class Kernels:
    """Machines of one kind with each of two kernels.

    Args:
        kind: as in the names of claims: ``pod.tcg``.
        new: returns a starter of machines with the kernel in question, owned by a given scope.
        baseline: the same with the kernel that it is compared with.
        scope: the test's.

    Attributes:
        kind: as given.
        new: starts machines with the kernel in question: ``kernels.new.start()``.
        baseline: starts machines with the kernel that it is compared with.
    """

    def __init__(
        self,
        kind: str,
        new: Callable[[Scope], Starter],
        baseline: Callable[[Scope], Starter],
        scope: Scope,
    ) -> None:
        self.kind = kind
        self._makers = (new, baseline)
        self._scope = scope
        self.new, self.baseline = new(scope), baseline(scope)

    def running(self, *, samples: int = SAMPLES, **options: Any) -> tuple[Running, Running]:
        """A machine with each kernel, the new one's first, for samples that need no fresh start each.

        Args:
            samples: how many each machine gives before it is replaced.
            options: for `Starter.start`.
        """
        new, baseline = self._makers
        return (
            Running(new, self._scope, samples, options),
            Running(baseline, self._scope, samples, options),
        )


class Running:
    """Call it in each sample for a machine, which is replaced now and then by another with the same kernel.

    A replacement does not distort the sample it falls into: tools time themselves.
    """

    def __init__(
        self,
        maker: Callable[[Scope], Starter],
        scope: Scope,
        samples: int,
        options: Mapping[str, Any],
    ) -> None:
        if samples < 1:
            raise ValueError(f"samples is {samples}, not a whole number of at least 1")
        # Targets of the test's scope end with the sample; these machines stay for several.
        self._own = Scope()
        self._starter = maker(self._own)
        self._scope = scope
        self._samples = samples
        self._options = dict(options)
        self._machine: Any = None
        self._left = 0
        scope.keep(self)

    def __call__(self) -> Any:
        """The machine for the next sample.

        Raises:
            Unavailable: such a machine is unavailable here.
            CannotStart: it does not start, e.g. because the kernel in question does not boot.
        """
        if not self._left:
            self.close()
            self._machine = self._starter.start(**self._options)
            self._left = self._samples
        self._left -= 1
        self._scope.own(cast("Target", _Lent(self._machine)))
        return self._machine

    def close(self) -> None:
        """End the machine; the next sample gets a new one."""
        self._machine, self._left = None, 0
        self._own.close_since()


@dataclass(frozen=True, eq=False)
class _Lent:
    """A machine lent to one sample: its facts are recorded with the sample, and it outlives the sample."""

    machine: Any

    def facts(self) -> Facts:
        facts: Facts = self.machine.facts()
        return facts

    def close(self) -> None:
        """Do nothing: the machine stays for the next sample."""


def kernel_phase(machine: Started) -> Quantity:
    """The kernel's share of a machine's start: from its first output until the first program of its root runs.

    Raises:
        Unavailable: this kernel prints nothing when it starts, so that the moment is unknown.
    """
    time = machine.startup_time
    found = dict(time.breakdown).get("kernel")
    if found is None:
        raise Unavailable(
            f"the kernel of {machine.name} prints nothing when it starts, so its share of the start is unknown",
            remedy="a kernel with CONFIG_SERIAL_8250_CONSOLE",
            target=machine.name,
        )
    return Quantity(found, time.unit, direction="lower")
