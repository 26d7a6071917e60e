"""Which processors of its host a machine on Xen may run on, as Xen has them: ``xl`` tells, on the host.

libvirt does not: its question for a machine's pinning begins with one for the host's processors (virNodeGetCPUMap),
which Xen's driver has no answer to. Format: Xen, tools/xl/xl_vcpu.c, the same from 4.14 to 4.19.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotConnect, CannotStart, Unavailable
from pytest_vperf.targets.limits import cpus_of

if TYPE_CHECKING:
    from pytest_vperf.targets.base import Completed, Target
    from pytest_vperf.targets.limits import Limits
    from pytest_vperf.targets.virt.daemon import Daemon
    from pytest_vperf.targets.virt.domain import Domain

#: A user's PATH need not have the folders of the system's programs. ``xl info`` says how many processors are "all".
_ASK = 'PATH="$PATH:/usr/sbin:/sbin"; xl vcpu-list "$1" && xl info'
_ITSELF = "0"
#: Name, ID, number, processor or "-", state, seconds, hard affinity / soft affinity.
_LINE = re.compile(
    r"^\S+ +\d+ +(?P<number>\d+) +(?:\d+|-) +\S+ +[\d.]+ +(?P<hard>\S+) / \S+ *$", re.M
)
_LAST = re.compile(r"^max_cpu_id *: *(\d+)$", re.M)
_NOT_READ = "the pinning of machines on Xen cannot be read back"


def reader(daemon: Daemon, limits: Limits) -> Target | None:
    """The machine that tells the pinning of a daemon's machines; ``None`` where they shall have none.

    It is asked about itself once, so that no machine is started whose pinning nobody could tell.

    Raises:
        Unavailable: it cannot be reached, or does not tell.
    """
    if limits.cpuset is None:
        return None
    try:
        return daemon.shell(_check)
    except CannotConnect as error:
        raise Unavailable(
            f"{_NOT_READ}: {error}", remedy="have ssh let you in there as root, without a question"
        ) from None
    except Unavailable as error:
        raise Unavailable(f"{_NOT_READ}: {error.reason}", remedy=error.remedy) from None


def _check(host: Target) -> None:
    """Make sure that a machine tells its own.

    Raises:
        Unavailable: it does not.
    """
    done = _ask(host, _ITSELF)
    if done.returncode == 127:
        raise Unavailable(
            f"xl is not installed on {host.name}", remedy="apt-get install xen-utils-common, there"
        )
    if done.returncode:
        raise Unavailable(
            f"xl on {host.name} says: {_words(done)}",
            remedy="be root there, e.g. xen+ssh://root@HOST/",
        )
    try:
        affinity(done.text)
    except ValueError as error:
        raise Unavailable(f"xl on {host.name}: {error}") from None


def pinned(host: Target | None, domain: Domain, limits: Limits, vcpus: int) -> dict[str, str]:
    """The processors that each of a machine's may run on, read back: for its facts.

    Args:
        host: as `reader` gave it.
        domain: the machine.
        limits: what was asked for.
        vcpus: how many it has.

    Raises:
        CannotStart: Xen has others than were asked for, or does not tell.
        CannotConnect: the host is gone.
    """
    if host is None or limits.cpuset is None:
        return {}
    done = _ask(host, domain.identity)
    if done.returncode:
        raise CannotStart(
            f"{domain.name}: its pinning cannot be read back: {_words(done)}", target=domain.name
        )
    try:
        found = affinity(done.text)
    except ValueError as error:
        raise CannotStart(f"{domain.name}: {error}", target=domain.name) from None
    wanted = cpus_of(limits.cpuset)
    for number in range(vcpus):
        if found.get(number) != wanted:
            raise CannotStart(
                f"{domain.name}: asked for cpuset {limits.cpuset!r}, the hypervisor has"
                f" {sorted(found.get(number, ()))} for vCPU {number}",
                target=domain.name,
            )
    return {"cpuset": limits.cpuset}


def affinity(said: str) -> dict[int, set[int]]:
    """The number of each processor of a machine → those of the host that it may run on (hard affinity).

    One that runs nowhere at the moment has some, too.

    Args:
        said: by ``xl vcpu-list MACHINE``, and by ``xl info`` after that.

    Raises:
        ValueError: it is not understood; with its first lines.
    """
    found: dict[int, set[int]] = {}
    for line in _LINE.finditer(said):
        hard = line["hard"]
        last = _LAST.search(said)
        if hard == "all" and last is not None:
            found[int(line["number"])] = set(range(int(last[1]) + 1))
        elif hard == "none":
            found[int(line["number"])] = set()
        else:
            try:
                found[int(line["number"])] = cpus_of(hard)
            except ValueError:
                raise ValueError(_not_understood(said)) from None
    if not found:
        raise ValueError(_not_understood(said))
    return found


def _not_understood(said: str) -> str:
    return f"what xl vcpu-list says is not understood: {said[:300]!r}"


def _ask(host: Target, machine: str) -> Completed:
    return host.run(["sh", "-c", _ASK, "sh", machine], check=False)


def _words(done: Completed) -> str:
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return said[-300:] or f"it ended with status {done.returncode}"
