"""Quantities: strict to read, exact to convert, never across dimensions."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf import quantity
from pytest_vperf.quantity import (
    DimensionError,
    Quantity,
    QuantityError,
    Series,
    amount,
    conversion_factor,
    dimension,
    format_number,
)

TIMES = ["ns", "us", "µs", "μs", "ms", "s", "min", "h"]
SIZES = ["bit", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "TiB"]
RATES = ["B/s", "KiB/s", "MB/s", "Mbit/s", "Gbit/s"]
KINDS = [TIMES, SIZES, RATES, ["%", "", "1"], ["packet/s", "packet/min"], ["operation/s"]]

units_of_a_kind = st.sampled_from(KINDS).flatmap(
    lambda kind: st.tuples(st.sampled_from(kind), st.sampled_from(kind))
)
units_of_two_kinds = st.permutations(KINDS).flatmap(
    lambda kinds: st.tuples(st.sampled_from(kinds[0]), st.sampled_from(kinds[1]))
)
magnitudes = st.floats(min_value=1e-9, max_value=1e12)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("400 ms", 400, "ms"),
        ("400ms", 400, "ms"),
        ("  1.5 GiB ", 1.5, "GiB"),
        ("2 %", 2, "%"),
        ("2%", 2, "%"),
        ("0.75", 0.75, ""),
        (".5 s", 0.5, "s"),
        ("5. s", 5, "s"),
        ("-3 ms", -3, "ms"),
        ("+1e3 ms", 1000, "ms"),
        ("8.4 Gbit / s", 8.4, "Gbit/s"),
        ("70000 packet/s", 70000, "packet/s"),
        ("400\u00a0ms", 400, "ms"),
        ("4 MB\t/ s", 4, "MB/s"),
        ("252 count", 252, "count"),
    ],
)
def test_reads_a_number_with_a_unit(text: str, value: float, unit: str) -> None:
    assert Quantity.parse(text) == Quantity(value, unit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "ms",
        "400 mss",
        "4 00 ms",
        "400 ms ms",
        "9**9**9 ms",
        "400 ms; import os",
        "1e9999 ms",
        "nan ms",
        "inf ms",
        "NaN",
        "0x10 ms",
        "1_000 ms",
        "٤٠٠ ms",
        "4,5 ms",
        "400 nan",
        "5 __import__",
        "5 and",
        "1" * 200 + " ms",
    ],
)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@given(st.text(max_size=200))
def test_reading_any_text_gives_a_quantity_or_the_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert math.isfinite(quantity.value)
    assert not any(letter.isspace() for letter in quantity.unit)


@given(st.from_regex(r"[0-9]{1,3} ?[A-Za-z%*/ ]{1,12}", fullmatch=True))
def test_reading_anything_like_a_quantity_gives_one_or_the_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert conversion_factor(quantity.unit, quantity.unit) == 1
    assert dimension(quantity.unit)


@given(magnitudes, st.sampled_from([unit for kind in KINDS for unit in kind]))
def test_printed_quantities_can_be_parsed(value: float, unit: str) -> None:
    unit = "" if unit == "1" else unit
    again = Quantity.parse(str(Quantity(value, unit)))
    assert again.unit == unit
    assert math.isclose(again.value, value, rel_tol=1e-3)


@pytest.mark.parametrize(
    ("given_", "unit", "value"),
    [
        (Quantity(1, "s"), "ms", 1000),
        (Quantity(1, "GiB"), "MiB", 1024),
        (Quantity(1, "GB"), "MB", 1000),
        (Quantity(8, "Mbit/s"), "MB/s", 1),
        (Quantity(2, "%"), "", 0.02),
        (Quantity(60, "packet/min"), "packet/s", 1),
        (Quantity(90, "min"), "h", 1.5),
    ],
)
def test_converts(given_: Quantity, unit: str, value: float) -> None:
    assert given_.to(unit).value == pytest.approx(value, rel=1e-12)
    assert given_.to(unit).unit == unit


@given(magnitudes, units_of_a_kind)
def test_there_and_back_is_the_same(value: float, units: tuple[str, str]) -> None:
    one, other = units
    assert Quantity(value, one).to(other).to(one).value == pytest.approx(value, rel=1e-9)
    assert conversion_factor(one, other) * conversion_factor(other, one) == pytest.approx(1)


@given(magnitudes, units_of_two_kinds)
def test_never_converts_between_dimensions(value: float, units: tuple[str, str]) -> None:
    one, other = units
    assert dimension(one) != dimension(other)
    with pytest.raises(DimensionError):
        Quantity(value, one).to(other)


def test_a_size_is_no_percentage_and_a_throughput_no_frequency() -> None:
    """For pint a bit has no dimension."""
    with pytest.raises(DimensionError, match=r"GiB \(\[information\]\) cannot be compared with %"):
        Quantity(3, "GiB").to("%")
    with pytest.raises(DimensionError, match=r"MB/s \(\[information\] / \[time\]\)"):
        Quantity(3, "MB/s").to("Hz")
    assert dimension("B/bit") == "dimensionless"


def test_a_limit_in_ms_cannot_meet_a_throughput() -> None:
    with pytest.raises(
        DimensionError,
        match=r"^MB/s \(\[information\] / \[time\]\) cannot be compared with ms \(\[time\]\)$",
    ):
        Quantity(400, "MB/s").to("ms")


@pytest.mark.parametrize(("unit", "to"), [("degC", "kelvin"), ("degC", "degF"), ("dB", "%")])
def test_scales_with_an_offset_have_no_factor(unit: str, to: str) -> None:
    with pytest.raises(QuantityError, match="cannot be scaled"):
        conversion_factor(unit, to)


def test_converts_the_parts_with_the_whole() -> None:
    start = Quantity(1.5, "s", (("firmware", 0.5), ("kernel", 1.0)))
    assert start.to("ms").named_breakdown == {"firmware": 500, "kernel": 1000}
    assert start.named_breakdown == {"firmware": 0.5, "kernel": 1.0}


@given(
    st.lists(st.tuples(st.text(max_size=5), st.floats(0, 1e6)), max_size=5),
    st.sampled_from(TIMES),
    st.sampled_from(TIMES),
)
def test_parts_still_add_up_in_another_unit(
    parts: list[tuple[str, float]], unit: str, to: str
) -> None:
    whole = Quantity(math.fsum(part for _, part in parts), unit, tuple(parts)).to(to)
    assert math.fsum(part for _, part in whole.breakdown) == pytest.approx(whole.value, rel=1e-9)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", None, 10**400])
def test_refuses_a_value_that_is_no_finite_number(value: float) -> None:
    with pytest.raises(QuantityError):
        Quantity(value, "ms")
    with pytest.raises(QuantityError):
        Quantity(1, "ms", (("part", value),))


def test_a_conversion_out_of_a_floats_range_is_an_error() -> None:
    with pytest.raises(QuantityError):
        Quantity(1e308, "h").to("ns")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (400, "400"),
        (376.25, "376.2"),
        (1.23456, "1.235"),
        (0.0123456, "0.01235"),
        (-2.5, "-2.5"),
        (999.96, "1000"),
        (21457, "21457"),
        (1234567.8, "1234568"),
        (1e7, "1.000e+07"),
        (1e-5, "1.000e-05"),
        (5e-324, "4.941e-324"),
    ],
)
def test_formats_numbers_for_people(value: float, text: str) -> None:
    assert format_number(value) == text


@given(st.floats(-1e300, 1e300))
def test_a_formatted_number_is_the_number_to_four_digits(value: float) -> None:
    assert float(format_number(value)) == pytest.approx(value, rel=1e-3, abs=0)


def test_prints_with_its_unit() -> None:
    assert str(Quantity(400, "ms")) == "400 ms"
    assert str(Quantity(0.75)) == "0.75"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (10, "runtime is 10, not a text such as '10 s'"),
        ("soon", "runtime is 'soon', not one such as '10 s': 'soon' is not a number with a unit, such as '400 ms'"),
        ("10", "runtime is '10', not one such as '10 s': 1 (dimensionless) cannot be compared with s ([time])"),
        ("1 MB", "runtime is '1 MB', not one such as '10 s': MB ([information]) cannot be compared with s ([time])"),
    ],
)  # fmt: skip
def test_a_parameter_that_is_no_amount_is_named(value: object, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        amount("runtime", value, "s", such_as="10 s")
    assert str(caught.value) == message


def test_a_parameter_in_another_unit() -> None:
    assert amount("rate", "100 Mbit/s", "bit/s", such_as="1 Gbit/s") == 1e8


def test_extra_figures_keep_their_own_unit() -> None:
    found = Quantity(2, "s").with_extra(p99=Quantity(9, "us"), lost=None, each=Series((1, 2), "s"))
    assert found.extra == (("p99", Series((9,), "us")), ("each", Series((1, 2), "s")))
    assert found.to("ms").extra == found.extra
    assert found.with_extra(more=Series((1,))).extra[-1] == ("more", Series((1,)))


@pytest.mark.parametrize("values", [(), (math.nan,), (1.0, math.inf), (True,)])
def test_bad_series_are_refused(values: tuple[float, ...]) -> None:
    with pytest.raises(QuantityError):
        Series(values)


def test_what_a_quantity_says_of_itself_stays_with_it() -> None:
    found = Quantity(-2, "s", signed=True, discrete=True)
    for each in (found.to("ms"), found.with_extra(p99=Quantity(9, "us")), replace(found, value=0)):
        assert (each.signed, each.discrete) == (True, True)
    assert (Quantity(2).signed, Quantity(2).discrete) == (False, False)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (numpy.int64(5), int),
        (numpy.uint8(5), int),
        (numpy.float32(5), float),
        (numpy.float64(5), float),
        (Fraction(5), float),
        (5, int),
        (5.0, float),
    ],
)
def test_any_real_number_is_kept_as_one_that_json_can_hold(value: float, kind: type) -> None:
    whole = Quantity(value, "ms", (("part", value),), extra=(("each", Series((value,))),))
    each = [whole.value, whole.breakdown[0][1], whole.extra[0][1].values[0]]
    assert [type(number) for number in each] == [kind] * 3
    assert each == [5, 5, 5]
    assert Series(tuple(numpy.array([1, 2]))).values == (1, 2)


@pytest.mark.parametrize("value", [numpy.bool_(True), numpy.float32("nan"), numpy.array([1, 2])])
def test_refuses_what_numpy_has_that_is_no_number(value: float) -> None:
    with pytest.raises(QuantityError):
        Quantity(value, "ms")


def test_numpy_is_not_imported_for_its_numbers() -> None:
    program = "import sys; from pytest_vperf import Quantity; Quantity(5, 'ms'); print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("10 mB/s", "'mB/s' is not a unit: it would be in millibytes: did you mean 'MB/s'?"),
        ("10 mbit/s", "'mbit/s' is not a unit: it would be in millibits: did you mean 'Mbit/s'?"),
        ("400 Ms", "'Ms' is not a unit: it would be in megaseconds: did you mean 'ms'?"),
        ("2 ks", "'ks' is not a unit: it would be in kiloseconds: did you mean 's'?"),
        ("3 mHz", "'mHz' is not a unit: it would be in millihertzs: did you mean 'MHz'?"),
        (
            "5 millibyte",
            "'millibyte' is not a unit: it would be in millibytes: did you mean 'megabyte'?",
        ),
        ("5 request/s", "'request/s' is not a unit: did you mean 'operation/s'?"),
        ("5 requests/second", "'requests/second' is not a unit: did you mean 'operation/second'?"),
        ("5 rps", "'rps' is not a unit: did you mean 'operation/s'?"),
        ("5 kpps", "'kpps' is not a unit: did you mean 'kpacket/s'?"),
        ("5 Mbps", "'Mbps' is not a unit: did you mean 'Mbit/s'?"),
        ("5 Mb/s", "'Mb/s' is not a unit: did you mean 'Mbit/s'?"),
        ("3 KB", "'KB' is not a unit: did you mean 'kB'?"),
        ("3 parsnips", "'parsnips' is not a unit"),
    ],
)
def test_units_that_nobody_means(text: str, what: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "unit",
    [
        *("ms", "us", "ns", "s", "min", "hour", "MB", "kB", "GiB/s", "Mbit/s", "kpacket/s"),
        *("operation/s", "ops/s", "MHz", "GHz", "MFLOPS", "DMIPS", "mW"),
    ],
)
def test_units_that_are_meant(unit: str) -> None:
    assert Quantity.parse(f"1 {unit}").unit == unit


def test_the_times_that_are_known_by_heart_are_times() -> None:
    assert {str(quantity._registry().Unit(each).dimensionality) for each in quantity._TIMES} == {
        "[time]"
    }
