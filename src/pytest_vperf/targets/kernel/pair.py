"""Two kernels for the same kind of machine: the one in question, and the one it is compared with.

What a machine is like does not depend on its kernel alone. Where the kernel puts itself and its data at a start is
drawn anew each time (KASLR; which pages of the host it gets), and stays as it is until the next start: two machines
with the *same* kernel can differ by that for as long as they run, however often they are sampled. So a comparison
is of many starts: `Kernels.running` gives machines that are ended, and started again, after some samples.
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

#: Samples that a machine gives before another one takes its place.
SAMPLES = 4


class Starter(Protocol):
    """Starts machines of one kind with one kernel; a scope owns them, so that a sample ends what it started."""

    @property
    def start(self) -> Callable[..., Any]:
        """Starts one and waits until it can be used."""
        ...


class NotNamed:
    """Starts nothing, since nobody said which kernel is in question.

    Args:
        kind: of machine, e.g. ``pod.tcg``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def start(self, **_: Any) -> NoReturn:
        """Say what is missing.

        Raises:
            Unavailable: always.
        """
        raise Unavailable(
            "no kernel was named that could be compared with another one",
            remedy="--vperf-kernel=FILE, and --baseline-kernel=FILE if not with the one that machines boot anyway",
            target=self._kind.replace(".", " "),
        )


class Kernels:
    """Machines of one kind with each of two kernels.

    Args:
        kind: as in the names of claims: ``pod.tcg``.
        new: makes what starts machines with the kernel in question, for a scope that owns them.
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
            samples: how many each machine gives before another one takes its place.
            options: of `Starter.start`.
        """
        new, baseline = self._makers
        return (
            Running(new, self._scope, samples, options),
            Running(baseline, self._scope, samples, options),
        )


class Running:
    """A machine that is there for each sample: ``machine()``; another one now and then, with the same kernel.

    The sample it was asked for is not timed meanwhile: tools time themselves.
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
        # What a sample starts through the test's scope ends with it; these machines stay for some.
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
            CannotStart: it does not start; so it is where the kernel in question does not boot.
        """
        if not self._left:
            self.close()
            self._machine = self._starter.start(**self._options)
            self._left = self._samples
        self._left -= 1
        self._scope.own(cast("Target", _Lent(self._machine)))
        return self._machine

    def close(self) -> None:
        """End the machine; the next sample gets another one."""
        self._machine, self._left = None, 0
        self._own.close_since()


@dataclass(frozen=True, eq=False)
class _Lent:
    """A machine as one sample has it: its facts are the sample's, and it goes on when the sample is over."""

    machine: Any

    def facts(self) -> Facts:
        facts: Facts = self.machine.facts()
        return facts

    def close(self) -> None:
        """It stays for the next sample."""


def kernel_phase(machine: Started) -> Quantity:
    """How long the kernel took of a machine's start: from its first word until the first program of its root runs.

    Raises:
        Unavailable: this kernel says nothing at its start, so that nobody knows when it began.
    """
    time = machine.startup_time
    found = dict(time.breakdown).get("kernel")
    if found is None:
        raise Unavailable(
            f"the kernel of {machine.name} says nothing at its start, so that its share of it is not known",
            remedy="a kernel with CONFIG_SERIAL_8250_CONSOLE",
            target=machine.name,
        )
    return Quantity(found, time.unit, direction="lower")
