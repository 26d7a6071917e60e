"""--vperf-machine: machines that are known by SSH alone, by the names that the user gives them."""

from __future__ import annotations

import pytest

SHOWS = """
    import pytest
    from pytest_vperf.run.stash import claims_session

    def test_settings(request):
        print(f"named: {dict(claims_session(request.config).settings.machines)}")

    def test_machine(claim, machine):
        claim(f"response.idle.machine.{machine.name}").holds(lambda: machine.reach())
"""


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), "{}"),
        (("--vperf-machine=lxc=ssh://root@a",), "{'lxc': ('ssh://root@a',)}"),
        (
            (
                "--vperf-machine=lxc=ssh://a",
                "--vperf-machine=host=lab:xen",
                "--vperf-machine=lxc=ssh://b",
            ),
            "{'lxc': ('ssh://a', 'ssh://b'), 'host': ('lab:xen',)}",
        ),
        (
            ("-o", "vperf_machine=a=ssh://a b=ssh://b:22"),
            "{'a': ('ssh://a',), 'b': ('ssh://b:22',)}",
        ),
    ],
)
def test_names_and_addresses_are_kept_in_order(
    pytester: pytest.Pytester, options: tuple[str, ...], shown: str
) -> None:
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest("-s", "-k", "settings", *options)
    assert f"named: {shown}" in result.stdout.str()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--vperf-machine=ssh://a",),
            "--vperf-machine: 'ssh://a' is not NAME=ssh://[user@]host[:port], such as esxi=ssh://root@guest: a"
            " name has lower-case letters, digits and _",
        ),
        (
            ("--vperf-machine=Esxi=ssh://a",),
            "--vperf-machine: 'Esxi=ssh://a' is not NAME=ssh://[user@]host[:port], such as"
            " esxi=ssh://root@guest: a name has lower-case letters, digits and _",
        ),
        (
            ("--vperf-machine=esxi=-oProxyCommand=x",),
            "--vperf-machine: '-oProxyCommand=x' is not ssh://[user@]host[:port], nor lab:KIND",
        ),
        (
            ("--vperf-machine=esxi=lab:bhyve",),
            "--vperf-machine: there is no lab 'bhyve'; there are: lab:kvm, lab:xen",
        ),
        (
            ("--vperf-machine=esxi=ssh://a", "--vperf-machine=esxi=ssh://a"),
            "--vperf-machine: esxi: ssh://a is given twice",
        ),
        (
            ("--vperf-machine=host=ssh://a", "--vperf-machine=host=ssh://b"),
            "--vperf-machine: two for host: ssh://a and ssh://b",
        ),
        (
            ("--vperf-machine=esxi=ssh://a", "-n1"),
            "--vperf-machine: one run at a time measures on another machine: run without pytest-xdist's -n",
        ),
    ],
)
def test_a_mistake_says_what_is_right(
    pytester: pytest.Pytester, options: tuple[str, ...], message: str
) -> None:
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.stderr.str().splitlines()


def test_each_system_of_the_documents_is_asked_for_and_each_that_was_named(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest(
        "--collect-only",
        "-q",
        "--vperf-machine=lxc=ssh://a",
        "--vperf-machine=hyperv=ssh://b",
        "--vperf-machine=host=ssh://c",
    )
    found = [
        line.partition("[")[2].rstrip("]") for line in result.outlines if "test_machine[" in line
    ]
    assert found == ["esxi", "xenserver", "hyperv", "openvz", "lxc"]


def test_a_fixture_of_the_user_s_own_with_that_name_is_left_alone(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def machine():
            return "mine"

        def test_it(machine):
            assert machine == "mine"
        """
    )
    pytester.runpytest("--vperf-machine=lxc=ssh://a").assert_outcomes(passed=1)
