"""--vperf-on: the machine that targets are started on is named in the header, and is not taken for this one."""

from __future__ import annotations

import pytest

USES = """
    from samplers import around
    def test_it(claim):
        open("measured", "w").close()
        claim("start.quick").holds(around(350))
"""


@pytest.mark.parametrize("option", ["--vperf-on=there", "-ovperf_on=there"])
def test_bad_machine_names_are_refused(project: pytest.Pytester, option: str) -> None:
    project.makepyfile(USES)
    result = project.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: --vperf-on: 'there' is not ssh://[user@]host[:port], nor lab:KIND"
    ]
    assert not (project.path / "measured").exists()


def test_the_machine_is_named(project: pytest.Pytester) -> None:
    project.makepyfile(USES)
    result = project.runpytest("--vperf-on=ssh://root@there:2222", "--claims-sessions=1")
    assert "claims: targets on root@there:2222" in result.outlines
    (hardware,) = [line for line in result.outlines if line.startswith("claims: hardware")]
    assert hardware.endswith("(auto does not know root@there:2222: name its profile with --hw)"), (
        hardware
    )


def test_a_profile_that_is_named_is_not_held_against_this_machine(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(USES)
    result = project.runpytest("--vperf-on=lab:kvm", "--hw=lab", "--collect-only")
    assert "claims: targets on lab kvm" in result.outlines
    (hardware,) = [line for line in result.outlines if line.startswith("claims: hardware")]
    assert "(named)" in hardware
