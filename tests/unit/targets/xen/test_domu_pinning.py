"""The pinning of machines on Xen, read back from the output of ``xl``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CannotConnect, CannotStart, Completed, Unavailable
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.xen.domus import affinity, pinned, reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEAD = "Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)\n"
#: From the lab's Xen 4.17, without lines that are not about processors.
INFO = """\
host                   : lab-xen
nr_cpus                : 2
max_cpu_id             : 1
nr_nodes               : 1
cores_per_socket       : 2
threads_per_core       : 1
free_cpus              : 0
xen_version            : 4.17.7
xen_scheduler          : credit2
"""
ITSELF = f"""{HEAD}\
Domain-0                             0     0    1   r--      16.3  all / all
Domain-0                             0     1    0   -b-      14.9  all / all
{INFO}"""
MACHINE = f"""{HEAD}\
vperf-0123abcd-1                     1     0    0   -b-       4.1  0 / all
vperf-0123abcd-1                     1     1    -   --p       0.0  0 / all
{INFO}"""
#: The message that an ordinary user gets there.
NOT_ROOT = """\
xencall: error: Could not obtain handle on privileged command interface: Permission denied
libxl: error: libxl.c:102:libxl_ctx_alloc: cannot open libxc handle: Permission denied
cannot init xl context
"""


def machine(hard: str) -> str:
    return MACHINE.replace(" 0 / all", f" {hard} / all")


@pytest.mark.parametrize(
    ("hard", "cpus"),
    [
        ("0", {0}),
        ("11", {11}),
        ("0-1", {0, 1}),
        ("0,2", {0, 2}),
        ("0-2,5,8-9", {0, 1, 2, 5, 8, 9}),
        ("all", {0, 1}),
        ("none", set()),
    ],
)
def test_output_of_xl_is_parsed(hard: str, cpus: set[int]) -> None:
    """The machine's second vCPU is not running at the moment; its affinity counts, too."""
    assert affinity(machine(hard)) == {0: cpus, 1: cpus}


def test_all_means_processors_up_to_the_highest_number() -> None:
    """With half of the threads offline the numbers have gaps, and xl counts the gaps."""
    gaps = machine("all").replace("max_cpu_id             : 1", "max_cpu_id             : 3")
    assert affinity(gaps)[0] == {0, 1, 2, 3}


def test_wide_columns_are_parsed() -> None:
    line = (
        f"{'5527fc1be2e31d7aeaed7d22c2e9766df0dc92d1'} 18     0    1   r--  123456.7  2-3 / all\n"
    )
    assert affinity(HEAD + line) == {0: {2, 3}}


@pytest.mark.parametrize(
    "said",
    [
        "",
        HEAD,
        machine("some"),
        machine("all").replace("max_cpu_id             : 1\n", ""),
        # Xen 4.4 had one affinity.
        "Name  ID  VCPU   CPU State   Time(s) CPU Affinity\nd  1  0  0  -b-  1.0  any cpu\n",
    ],
)
def test_unreadable_output_of_xl_is_refused(said: str) -> None:
    with pytest.raises(
        ValueError, match="the output of xl vcpu-list is not understood: "
    ) as caught:
        affinity(said)
    assert repr(said[:300]) in str(caught.value)


class XlHost:
    """A host whose ``xl`` has a given answer."""

    name = "host (lab xen)"

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], *, check: bool) -> Completed:
        assert not check
        self.asked.append(argv[-1])
        status, said, errors = self._answers.pop(0)
        return Completed(tuple(argv), status, said.encode(), errors.encode(), 0.1)


class Place:
    """A daemon on a host that can be reached or not."""

    def __init__(self, host: XlHost | None = None, error: Exception | None = None) -> None:
        self._host = host
        self._error = error

    def shell(self, check: Callable[[Any], None]) -> Any:
        if self._error is not None:
            raise self._error
        check(self._host)
        return self._host


def domain() -> Any:
    return SimpleNamespace(name="domu pv (lab xen)", identity="vperf-0123abcd-1")


def read_back(asked: str, answer: tuple[int, str, str], vcpus: int = 2) -> dict[str, str]:
    host: Any = XlHost((0, ITSELF, ""), answer)
    daemon: Any = Place(host)
    limits = Limits(cpuset=asked)
    found = pinned(reader(daemon, limits), domain(), limits, vcpus)
    assert host.asked == ["0", "vperf-0123abcd-1"]
    return found


@pytest.mark.parametrize(
    ("asked", "hard"), [("0", "0"), ("0-1", "all"), ("1,0", "all"), ("0-2", "0-2"), ("2,0", "0,2")]
)
def test_the_pinning_is_read_back(asked: str, hard: str) -> None:
    assert read_back(asked, (0, machine(hard), "")) == {"cpuset": asked}


def test_without_pinning_xl_is_not_asked() -> None:
    host: Any = XlHost()
    limits = Limits(cpu_shares=512, cpus=0.5)
    assert reader(host, limits) is None
    assert pinned(None, domain(), limits, 1) == {}


@pytest.mark.parametrize(
    ("asked", "hard", "has"),
    [("0", "1", "[1]"), ("0", "all", "[0, 1]"), ("0-7", "all", "[0, 1]"), ("0", "none", "[]")],
)
def test_a_pinning_that_differs_from_the_request_is_an_error(
    asked: str, hard: str, has: str
) -> None:
    with pytest.raises(CannotStart) as caught:
        read_back(asked, (0, machine(hard), ""))
    assert str(caught.value) == (
        f"domu pv (lab xen): asked for cpuset {asked!r}, the hypervisor has {has} for vCPU 0"
    )
    assert caught.value.target == "domu pv (lab xen)"


def test_the_pinning_of_every_vcpu_is_checked() -> None:
    one = MACHINE.replace("0.0  0 / all", "0.0  all / all")
    with pytest.raises(CannotStart, match=r"the hypervisor has \[0, 1\] for vCPU 1$"):
        read_back("0", (0, one, ""))
    with pytest.raises(CannotStart, match=r"the hypervisor has \[\] for vCPU 2$"):
        read_back("0", (0, MACHINE, ""), vcpus=3)


def test_a_machine_unknown_to_xl_is_an_error() -> None:
    said = "vperf-0123abcd-1 is an invalid domain identifier (rc=-6)\n"
    with pytest.raises(CannotStart) as caught:
        read_back("0", (1, HEAD, said))
    assert str(caught.value) == (
        "domu pv (lab xen): its pinning cannot be read back:"
        " vperf-0123abcd-1 is an invalid domain identifier (rc=-6)"
    )


def test_unreadable_output_about_a_machine_is_an_error() -> None:
    with pytest.raises(CannotStart) as caught:
        read_back("0", (0, "hello\n", ""))
    assert str(caught.value) == (
        "domu pv (lab xen): the output of xl vcpu-list is not understood: 'hello\\n'"
    )


@pytest.mark.parametrize(
    ("answer", "reason", "remedy"),
    [
        (
            (127, "", "sh: 1: xl: not found\n"),
            "xl is not installed on host (lab xen)",
            "apt-get install xen-utils-common, there",
        ),
        (
            (1, "", NOT_ROOT),
            "xl on host (lab xen) says: xencall: error: Could not obtain handle on privileged command"
            " interface: Permission denied libxl: error: libxl.c:102:libxl_ctx_alloc: cannot open"
            " libxc handle: Permission denied cannot init xl context",
            "be root there, e.g. xen+ssh://root@HOST/",
        ),
        (
            (1, "", ""),
            "xl on host (lab xen) says: it ended with status 1",
            "be root there, e.g. xen+ssh://root@HOST/",
        ),
        (
            (0, "hello\n", ""),
            "xl on host (lab xen): the output of xl vcpu-list is not understood: 'hello\\n'",
            "",
        ),
    ],
)
def test_a_failing_xl_makes_pinning_unavailable(
    answer: tuple[int, str, str], reason: str, remedy: str
) -> None:
    daemon: Any = Place(XlHost(answer))
    with pytest.raises(Unavailable) as caught:
        reader(daemon, Limits(cpuset="0"))
    assert caught.value.reason == f"the pinning of machines on Xen cannot be read back: {reason}"
    assert caught.value.remedy == remedy


@pytest.mark.parametrize(
    ("error", "reason", "remedy"),
    [
        (
            Unavailable("no way but libvirt", remedy="name it with +ssh"),
            "no way but libvirt",
            "name it with +ssh",
        ),
        (
            CannotConnect("host: ssh cannot reach h: Permission denied (publickey)."),
            "host: ssh cannot reach h: Permission denied (publickey).",
            "set up ssh to log in there as root without a prompt",
        ),
    ],
)
def test_an_unreachable_host_makes_pinning_unavailable(
    error: Exception, reason: str, remedy: str
) -> None:
    daemon: Any = Place(error=error)
    with pytest.raises(Unavailable) as caught:
        reader(daemon, Limits(cpuset="0"))
    assert caught.value.reason == f"the pinning of machines on Xen cannot be read back: {reason}"
    assert caught.value.remedy == remedy
