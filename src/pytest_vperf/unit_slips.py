"""Units that nobody means: ``mB/s`` is a rate in thousandths of a byte, ``Ms`` a million seconds, ``pps`` a length.

pint reads them as they are written. In a claim they are slips, and a limit of 10 mB/s would hold for almost anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: One name in a unit such as ``MB/s``.
_NAME = re.compile(r"[^\W\d]+")
#: What is written for a rate or a count, and what it is called here. The first three are other units to pint: points,
#: revolutions and bauds; in the field they are packets, requests and bits a second.
_OTHER_NAMES = {
    **dict.fromkeys(("pps", "fps"), "packet/s"),
    **dict.fromkeys(("rps", "tps", "qps", "iops", "IOPS"), "operation/s"),
    "bps": "bit/s",
    **dict.fromkeys(("request", "req", "transaction", "query", "event", "call"), "operation"),
    **dict.fromkeys(
        ("requests", "reqs", "transactions", "queries", "events", "calls"), "operation"
    ),
    **dict.fromkeys(("iteration", "iterations", "io", "IO"), "operation"),
    **dict.fromkeys(("frame", "frames"), "packet"),
    "b": "bit",
}
#: What is counted in whole ones: parts of them are slips.
_COUNTED = (
    "byte",
    "bit",
    "packet",
    "operation",
    "hertz",
    "dhrystone",
    "whetstone",
    "FLOP",
    "FLOPS",
)
#: A small prefix for a large one, and the reverse.
_LARGE = {"milli": ("mega", "M"), "micro": ("mega", "M"), "nano": ("giga", "G"), "pico": ("", "")}
_SMALL = {"mega": ("milli", "m"), "giga": ("nano", "n"), "kilo": ("", "")}


def slip(unit: str, registry: Any) -> str:
    """What a unit means that nobody means, and what was meant; empty if it is none.

    Args:
        unit: as it was written, of a form that pint reads.
        registry: pint's.
    """
    for name in _NAME.findall(unit):
        for means, meant in _of_name(name, registry):
            whole = re.sub(rf"(?<![^\W\d]){re.escape(name)}(?![^\W\d])", meant, unit)
            whole = whole.replace("/s/s", "/s").replace("/s/second", "/second")
            return f"{means}did you mean {whole!r}?"
    return ""


def _of_name(name: str, registry: Any) -> Iterator[tuple[str, str]]:
    """What a name means, for the message, and what to write instead."""
    if other := _other_name(name, registry):
        yield "", other
        return
    parsed = registry.parse_unit_name(name)
    if not parsed:
        first = name[0].swapcase() + name[1:]  # KB, gB
        if registry.parse_unit_name(first) and not list(_of_name(first, registry)):
            yield "", first
        return
    prefix, base, _ = parsed[0]
    if not prefix:
        return
    factor = registry.Quantity(1.0, f"{prefix}{base}").to(base).magnitude
    is_time = str(registry.Unit(base).dimensionality) == "[time]"
    if (is_time and factor > 1) or (base in _COUNTED and factor < 1):
        to = (_SMALL if is_time else _LARGE).get(prefix, ("", ""))
        yield f"it would be in {prefix}{base}s: ", _with(name, prefix, to, registry)


def _other_name(name: str, registry: Any) -> str:
    """What a name in `_OTHER_NAMES`, with a large prefix or none, is called here."""
    for prefix in ("", "k", "K", "M", "G", "T"):
        rest = name.removeprefix(prefix)
        if not name.startswith(prefix) or rest not in _OTHER_NAMES:
            continue
        if prefix and rest not in ("b", "bps", "pps", "iops", "IOPS", "rps"):
            continue
        return f"{'k' if prefix == 'K' else prefix}{_OTHER_NAMES[rest]}"
    return ""


def _with(name: str, prefix: str, to: tuple[str, str], registry: Any) -> str:
    """A name with another prefix, long or short as its own."""
    long, short = to
    if name.startswith(prefix):
        return long + name[len(prefix) :]
    symbols = (registry._prefixes[prefix].symbol, *registry._prefixes[prefix].aliases)
    own = next((each for each in symbols if name.startswith(each)), name[0])
    return short + name[len(own) :]
