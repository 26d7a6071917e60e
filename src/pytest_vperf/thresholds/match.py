"""Which machines a profile is for: the conditions of its ``match``, and how each is checked against a fingerprint."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity, QuantityError, dimension

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.fingerprint import Fingerprint

#: The profile that fits every machine, and the one of claims that projects publish about themselves, which does, too.
ANY, GALLERY = "any", "gallery"
EVERYWHERE = (ANY, GALLERY)

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


@dataclass(frozen=True)
class Comparison:
    """A condition on a number: ``>= 15 GiB``, ``15 GiB .. 17 GiB`` (both ends included), ``8``.

    Attributes:
        text: as it was written.
        bounds: operator and quantity; all must hold.
    """

    text: str
    bounds: tuple[tuple[str, Quantity], ...]

    @classmethod
    def parse(cls, text: str, example: str) -> Comparison:
        """Read a comparison.

        Args:
            text: what was written.
            example: a valid one, for the message; the text must have the dimension of its unit.

        Raises:
            QuantityError: it is not a comparison, or has another dimension.
        """
        ends = text.split("..")
        if len(ends) == 2:
            low, high = (_quantity(end, text, example) for end in ends)
            if high.to(low.unit).value < low.value:
                raise QuantityError(f"{text!r} ends below its beginning")
            return cls(text, ((">=", low), ("<=", high)))
        match = re.fullmatch(r"\s*(>=|<=|>|<)?(.*)", text, re.DOTALL)
        if match is None:
            raise QuantityError(f"{text!r} is not a comparison such as {example!r}")
        return cls(text, ((match[1] or "==", _quantity(match[2], text, example)),))

    def fits(self, value: Quantity) -> bool:
        """Whether a value satisfies the condition."""
        return all(
            _OPERATORS[sign](value.to(bound.unit).value, bound.value) for sign, bound in self.bounds
        )

    def __str__(self) -> str:
        return self.text


def _quantity(text: str, whole: str, example: str) -> Quantity:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        raise QuantityError(f"{whole!r} is not a comparison such as {example!r}") from None
    wanted = Quantity.parse(example.lstrip("<>= ")).unit
    if dimension(quantity.unit) != dimension(wanted):
        given = f"in {quantity.unit}" if quantity.unit else "without a unit"
        asked = f"in a unit such as {wanted}" if wanted else "a plain number"
        raise QuantityError(f"{whole!r} is {given}, but must be {asked}, e.g. {example!r}")
    return quantity


@dataclass(frozen=True)
class Match:
    """The conditions of a profile, all of which must fit; ``None`` is no condition.

    Attributes:
        cpu_model: a part of the processor's name, such as ``E3-1240 v3``. Case, repeated spaces, ``(R)``,
            ``(TM)`` and the word CPU do not count.
        logical_cpus: a condition on the number of processors.
        memory: a condition on the kernel's memory, which is a little less than what is installed.
        kernel: the beginning of its release, in whole parts: ``6.1`` is 6.1.7, and is not 6.18.
        hypervisor: its name; ``none`` for bare metal.
        architecture: as ``uname -m`` prints it.
    """

    cpu_model: str | None = None
    logical_cpus: Comparison | None = None
    memory: Comparison | None = None
    kernel: str | None = None
    hypervisor: str | None = None
    architecture: str | None = None

    @property
    def size(self) -> int:
        """The number of conditions."""
        return sum(getattr(self, each.name) is not None for each in fields(self))

    def mismatches(self, machine: Fingerprint) -> tuple[str, ...]:
        """The conditions that fail, one line each: ``logical_cpus is 2, not 8``. Empty for a machine that fits."""
        found = []
        if machine.emulated and self.size:
            # Whatever processor it reports, its timings are not those of the hardware.
            found.append("the machine is emulated")
        if self.cpu_model is not None and _folded(self.cpu_model) not in _folded(machine.cpu_model):
            found.append(f"cpu_model is {machine.cpu_model!r}, not {self.cpu_model!r}")
        for name, wanted, value in (
            ("logical_cpus", self.logical_cpus, _plain(machine.logical_cpus)),
            ("memory", self.memory, machine.memory),
        ):
            if wanted is not None and not (value is not None and wanted.fits(value)):
                found.append(f"{name} is {'unknown' if value is None else value}, not {wanted}")
        if self.kernel is not None and not _begins(machine.kernel, self.kernel):
            found.append(f"kernel is {machine.kernel!r}, not {self.kernel!r}")
        for name in ("hypervisor", "architecture"):
            text: str | None = getattr(self, name)
            is_now: str = getattr(machine, name)
            if text is not None and text.lower() != is_now.lower():
                found.append(f"{name} is {is_now!r}, not {text!r}")
        return tuple(found)


def _plain(number: int | None) -> Quantity | None:
    return None if number is None else Quantity(number)


def _folded(model: str) -> str:
    """A processor's name, normalised for comparison, between spaces so that only whole words match."""
    text = re.sub(r"\((?:r|tm)\)|®|™|\bcpu\b", " ", model.lower())
    return f" {' '.join(text.split())} "


def _begins(release: str, wanted: str) -> bool:
    """Whether a release is the wanted one or continues it with a new part."""
    rest = release[len(wanted) :]
    return release.startswith(wanted) and not (rest[:1].isalnum() and wanted[-1:].isalnum())
