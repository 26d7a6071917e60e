"""The parser on what hackbench prints, and a claim about a container and its host."""

from __future__ import annotations

import pytest
from vperf_hackbench import HackbenchRun

from pytest_vperf import Output, ParseError, Quantity

pytest_plugins = "pytester"

PRINTED = """Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)
Each sender will pass 200 messages of 100 bytes
Time: 0.386
"""
LIMITS = "hardware: {name: any, match: {}}\nclaims: {cpu.messages: {ratio: {at_most: 30}}}\n"
TEST = """
    def test_messages(claim, container, native, hackbench):
        claim("cpu.messages").compares(
            lambda: hackbench.run(container, loops=20), to=lambda: hackbench.run(native, loops=20)
        )
"""


def test_the_time_is_read() -> None:
    assert HackbenchRun().parse(Output(PRINTED)) == Quantity(0.386, "s", direction="lower")
    assert HackbenchRun.version_of(Output("hackbench V 2.40\nUsage:\n")) == "2.40"


@pytest.mark.parametrize("broken", ["", PRINTED.replace("80", "40"), PRINTED.replace("0.386", "")])
def test_another_output_is_refused(broken: str) -> None:
    with pytest.raises(ParseError):
        HackbenchRun().parse(Output(broken))


def test_a_container_and_its_host(pytester: pytest.Pytester) -> None:
    pytester.mkdir("thresholds").joinpath("any.yaml").write_text(LIMITS)
    pytester.makepyfile(TEST)
    run = pytester.runpytest_subprocess("--claims-strict", "--claims-tolerance=5%")
    assert run.ret == 0
    run.stdout.fnmatch_lines(["holds *cpu.messages *", "claims: 1 held"])
