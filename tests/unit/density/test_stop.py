"""Why a filling stops: messages of QEMU, libvirt, the engine and the kernel, and which are errors."""

from __future__ import annotations

import errno
import os

import pytest
import requests

from pytest_vperf.density.bounds import Stop, of_error
from pytest_vperf.targets.base import CannotConnect, CannotStart, TimedOut
from pytest_vperf.targets.container.address import answering


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        # QEMU 7.2 with more memory than the kernel promises
        (
            "allocation",
            "qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory",
        ),
        (
            "allocation",
            "OCI runtime create failed: fork/exec /proc/self/exe: cannot allocate memory",
        ),
        ("allocation", "libxenlight failed to create new domain: not enough free memory"),
        ("ports", "ip link set tap1 master br0: RTNETLINK answers: Exchange full"),
        ("ports", "adding interface veth1 to bridge docker0 failed: exchange full"),
        (
            "ports",
            "could not configure /dev/net/tun (tap7): Device or resource busy",
        ),
        ("ports", "no available IPv4 addresses on this network's address pools: bridge"),
        ("ports", "no available IPv6 addresses on this network's address pools: bridge"),
        ("addresses", "all addresses of 198.18.4.0/24 are in use by this run"),
        ("ports", "a tap cannot be made: /dev/net/tun: Device or resource busy"),
        ("resource", "fork/exec /usr/bin/runc: resource temporarily unavailable"),
        ("resource", "socket: Too many open files"),
        # Go's runtime, in runc or a shim that cannot create another thread (src/runtime/os_linux.go)
        ("resource", "runtime: failed to create new OS thread (have 5 already; errno=11)"),
        # runc at the quota of a user's keys (keyrings(7), kernel.keys.maxkeys)
        (
            "resource",
            "unable to join session keyring: unable to create session key: disk quota exceeded",
        ),
        # runc, whose first process was killed by the kernel
        ("allocation", "container init was OOM-killed (memory limit too low?)"),
        ("resource", "write /etc/hosts: no space left on device"),
    ],
)
def test_refusals_of_the_host_are_recognised(kind: str, said: str) -> None:
    stop = of_error(CannotStart(f"pod tcg qboot: QEMU ended with status 1\nQEMU said: {said}\nend"))
    assert stop is not None
    assert stop.kind == kind
    assert said in stop.why
    assert "\n" not in stop.why


def test_a_fork_without_memory_is_a_limit_of_the_host() -> None:
    stop = of_error(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
    assert stop == Stop("allocation", "[Errno 12] Cannot allocate memory")
    assert of_error(MemoryError()) == Stop(
        "allocation", "this process was refused memory (MemoryError)"
    )


def test_a_refused_thread_is_a_limit_of_the_host() -> None:
    assert of_error(RuntimeError("can't start new thread")) == Stop(
        "resource", "can't start new thread"
    )


def test_a_failure_that_says_nothing_about_the_host_is_an_error() -> None:
    assert of_error(CannotStart("pod tcg qboot: its container ended at once (false)")) is None


def test_a_start_that_took_too_long_is_no_limit() -> None:
    stop = of_error(TimedOut("guest tcg was not ready within 9 s\nits console: Out of memory"))
    assert stop == Stop("slow", "a start took too long: guest tcg was not ready within 9 s")
    assert not stop.is_limit
    assert not stop.is_memory


@pytest.mark.parametrize(
    "said",
    [
        "pod kvm qboot: QEMU ended with status 0 in the phase 'kernel'\nits console ended with:\n"
        "[    0.4] Kernel panic - not syncing: System is deadlocked on memory\nOut of memory",
        "pod kvm qboot: the container did not start: mount the overlay: Cannot allocate memory",
        "pod kvm qboot: its container ended at once (sh) with status 1:\nfork: Cannot allocate memory",
        "domu pv: its agent could not start a process: Cannot allocate memory",
    ],
)
def test_a_machine_that_is_too_small_says_nothing_about_its_host(said: str) -> None:
    """``density(pods, memory="24 MiB")`` does not show that the host carries none."""
    assert of_error(CannotStart(said)) is None


def test_messages_of_qemu_before_the_console_count() -> None:
    said = "QEMU ended with status 1\nQEMU said: Cannot allocate memory\nits console ended with:\nhello"
    assert of_error(CannotStart(said)) == Stop("allocation", "QEMU said: Cannot allocate memory")


def test_an_engine_that_takes_too_long_is_no_limit() -> None:
    url = "unix:///run/docker.sock"
    with pytest.raises(CannotConnect) as caught, answering(url):
        raise requests.ReadTimeout(TimeoutError("timed out"))
    stop = of_error(caught.value)
    assert stop == Stop(
        "slow", f"the Docker engine at {url} does not answer any more: it took too long"
    )
    gone = CannotConnect(f"the Docker engine at {url} does not answer any more: Connection refused")
    assert of_error(gone) is None


def test_the_runs_own_network_is_no_limit_of_the_host() -> None:
    assert not Stop("addresses", "").is_limit
    assert Stop("ports", "").is_limit


def test_a_long_line_is_cut() -> None:
    stop = of_error(CannotStart("x" * 1000 + " out of memory"))
    assert stop is not None
    assert stop.why == "x" * 300 + "…"
