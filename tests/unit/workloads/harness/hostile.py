"""Outputs as no tool should print them, and what a parser may make of them.

Whatever the text: a result or `ParseError`. Every figure of a result is finite and not negative; and there is *no
silent zero*: a figure is zero only where the text has a zero, and damage never turns another figure into one.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from golden_cases import figures

from pytest_vperf.workloads.base import Output, ParseError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from golden_cases import Case

_TOKEN = re.compile(r"(?<![0-9.])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

#: What is put where a number stands.
HOSTILE_NUMBERS = (
    "inf", "-inf", "nan", "-nan", "NaN", "Infinity", "-1", "-0.5", "1e400", "1e-400", "1e309", "9" * 400, "9" * 5000,
    "1" + "0" * 30, "0x10", "1_000", "1,5", "1.234,56", "1 000", "\u0663\u0664", "\uff11\uff12", "\xb2", "\xbd",
    "null", "true", '"7"', "[]",
    "{}", "", "-", "?", "K", "1K", "12.5M", "3G", "7Ki", "8Gi", "5T", "--", "1.2.3", ".5", "5.", "1e", "1e+", "NULL",
    "None", "\0", "1\0", "1\x85", "4294967296", "18446744073709551616", "%f", "-2147483648",
)  # fmt: skip

_NOISE = (
    "WARNING: clock skew detected\n",
    "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate to 79750\n",
    "qemu-system-x86_64: warning: TCG doesn't support requested feature\n",
    "[  123.456789] random: crng init done\n",
    "sh: 0: can't access tty; job control turned off\n",
    "\x1b[2J\x1b[0m\n",
    "{}\n",
    "{\n",
    "}\n",
    "\0\0\0\n",
)


class Silent(AssertionError):
    """A parser made a figure up."""


def judge(case: Case, output: Output, *, damaged: bool = False) -> str:
    """Let a case's parser read an output.

    Args:
        case: whose workload.
        output: what it is given.
        damaged: the output is the case's with something taken away, so that no figure may become zero.

    Returns:
        ``result`` or ``ParseError``.

    Raises:
        AssertionError: the parser did something else; the message names the figure.
    """
    try:
        result = case.made.parse(output)
    except ParseError as error:
        if not error.problem:
            raise Silent(f"{case.name}: a ParseError does not say what is wrong") from error
        return "ParseError"
    whole = output.stdout + output.stderr
    for name, value in figures(result):
        if isinstance(value, float) and not math.isfinite(value):
            raise Silent(f"{case.name}: {name} is {value!r}")
        if value < 0:
            raise Silent(f"{case.name}: {name} is {value!r}, negative")
        if value == 0 and not has_zero(whole):
            raise Silent(f"{case.name}: {name} is 0, and the text has no zero")
        if value == 0 and damaged and _plain(case).get(name, 0) != 0:
            raise Silent(f"{case.name}: {name} became 0")
    return "result"


_KNOWN: dict[int, dict[str, float]] = {}


def _plain(case: Case) -> dict[str, float]:
    """The figures of the undamaged output; none where that is an error."""
    if id(case) not in _KNOWN:
        try:
            _KNOWN[id(case)] = dict(figures(case.made.parse(case.output)))
        except ParseError:
            _KNOWN[id(case)] = {}
    return _KNOWN[id(case)]


def has_zero(text: str) -> bool:
    """Whether a number in the text is zero."""
    return any(float(match[0]) == 0 for match in _TOKEN.finditer(text))


def text_of(case: Case) -> str:
    """What is damaged: standard output, or standard error of a tool that prints its figures there."""
    return case.output.stdout or case.output.stderr


def with_text(case: Case, text: str) -> Output:
    """The case's output with another text in the place of that."""
    if not case.output.stdout:
        return Output("", text, case.output.version)
    return Output(text, case.output.stderr, case.output.version)


def truncations(case: Case) -> Iterator[Output]:
    """The output's beginning, for every length."""
    raw = case.raw
    for length in range(len(raw)):
        yield with_text(case, raw[:length].decode("utf-8", "replace"))


def struck_numbers(case: Case) -> Iterator[Output]:
    """One number after the other made unreadable."""
    text = text_of(case)
    for match in _TOKEN.finditer(text):
        yield with_text(case, text[: match.start()] + "?" + text[match.end() :])
        yield with_text(case, text[: match.start()] + text[match.end() :])


def struck_lines(case: Case) -> Iterator[Output]:
    """One line after the other taken away."""
    lines = text_of(case).splitlines(keepends=True)
    for index in range(len(lines)):
        yield with_text(case, "".join(lines[:index] + lines[index + 1 :]))


def replaced_number(text: str, source: random.Random) -> str:
    """A number replaced with something hostile."""
    found = list(_TOKEN.finditer(text))
    if not found:
        return text
    match = source.choice(found)
    return text[: match.start()] + source.choice(HOSTILE_NUMBERS) + text[match.end() :]


def suffixed_number(text: str, source: random.Random) -> str:
    """A unit's prefix put behind a number, or a sign before it."""
    found = list(_TOKEN.finditer(text))
    if not found:
        return text
    match = source.choice(found)
    before, after = source.choice(
        [("", "K"), ("", "M"), ("", "G"), ("", "Ki"), ("", "Gi"), ("-", ""), ("+", ""), ("", "%"), ("", "e999")]
    )  # fmt: skip
    return text[: match.start()] + before + match[0] + after + text[match.end() :]


def decimal_commas(text: str, source: random.Random) -> str:
    """As another locale prints it."""
    return re.sub(r"(?<=[0-9])\.(?=[0-9])", ",", text)


#: The zeros of Arabic-Indic, Devanagari and fullwidth digits, all of which Python's float() reads.
ZEROS = ("\u0660", "\u0966", "\uff10")


def other_digits(text: str, source: random.Random) -> str:
    """Digits of another script."""
    return in_script(text, source.choice(ZEROS))


def in_script(text: str, zero: str) -> str:
    """A text with the digits that begin at ``zero``."""
    return text.translate({ord("0") + digit: chr(ord(zero) + digit) for digit in range(10)})


def interleaved(text: str, source: random.Random) -> str:
    """Lines of standard error between, or within."""
    position = source.randrange(len(text) + 1)
    if source.random() < 0.5:
        position = text.rfind("\n", 0, position) + 1
    return text[:position] + source.choice(_NOISE) + text[position:]


def line_ends(text: str, source: random.Random) -> str:
    """As a serial console passes it."""
    return text.replace("\n", source.choice(["\r\n", "\r", "\n\n", "\r\r\n", "\x85", "\u2028"]))


def twice(text: str, source: random.Random) -> str:
    """Two outputs, or two of a block."""
    lines = text.splitlines(keepends=True) or [text]
    start = source.randrange(len(lines))
    end = source.randrange(start, len(lines)) + 1
    return "".join(lines[:end] + lines[start:])


def cut_out(text: str, source: random.Random) -> str:
    """Something from the middle is missing."""
    start = source.randrange(len(text) + 1)
    return text[:start] + text[start + source.randrange(1, 40) :]


def flipped(text: str, source: random.Random) -> str:
    """Bytes changed."""
    raw = bytearray(text.encode()) or bytearray(b" ")
    for _ in range(source.randrange(1, 6)):
        raw[source.randrange(len(raw))] = source.randrange(256)
    return raw.decode("utf-8", "replace")


def shuffled_lines(text: str, source: random.Random) -> str:
    """Lines in another order."""
    lines = text.splitlines(keepends=True)
    source.shuffle(lines)
    return "".join(lines)


def noise(text: str, source: random.Random) -> str:
    """Nothing of the tool at all."""
    return source.randbytes(source.randrange(200)).decode(
        source.choice(["utf-8", "latin-1"]), "replace"
    )


MUTATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    replaced_number,
    replaced_number,
    suffixed_number,
    decimal_commas,
    other_digits,
    interleaved,
    line_ends,
    twice,
    cut_out,
    flipped,
    shuffled_lines,
    noise,
)


def mutated(case: Case, source: random.Random) -> Output:
    """The case's output after one to three random mutations; now and then with them on standard error too."""
    text = text_of(case)
    for _ in range(source.choice([1, 1, 1, 2, 3])):
        text = source.choice(MUTATIONS)(text, source)
    output = with_text(case, text)
    if source.random() < 0.1:
        other = source.choice(MUTATIONS)(output.stderr or text, source)
        return Output(output.stdout, other, output.version)
    return output
