"""Who uses the processors: the accounts of a real kernel, and made-up ones of hosts with machines."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from passing_time import Clock

from pytest_vperf.quantity import Quantity
from pytest_vperf.results.record import Busy, Load
from pytest_vperf.targets.base import Completed, TargetError, Unavailable
from pytest_vperf.workloads import processors
from pytest_vperf.workloads.base import Output, ParseError
from pytest_vperf.workloads.processors import (
    Look,
    Use,
    Watch,
    command,
    named,
    uses,
    vhost,
    virtual_cpu,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from pytest_vperf.targets.base import Target

PRINTED = """\
clock
{uptime} 1000.00
cpu0 1 0 2 3 0 0 {softirq} 0 0 0
cpu1 1 0 2 3 0 0 0 0 0 0
times
/proc/7/task/7/schedstat:5 6 7
/proc/100/task/100/schedstat:1000000000 0 7
/proc/100/task/101/schedstat:{ran} {waited} 9
/proc/102/task/102/schedstat:{vhost} 0 9
names
7 (kworker/0:1 (x) y) S 2 0 0
100 (qemu-system-x86) S 1 100
101 (CPU 0/KVM) R 1 100
102 (vhost-100) R 2 0
commands
/proc/1/cmdline:/sbin/init\0
/proc/100/cmdline:/usr/bin/qemu\0-name\0guest=vperf-1,debug-threads=on\0
/proc/200/cmdline:sh\0-c\0one
/proc/200/cmdline:two\0
end
"""


def said(
    uptime: float, ran: float = 0, waited: float = 0, vhost: float = 0, softirq: int = 0
) -> Output:
    return Output(
        PRINTED.format(
            uptime=f"{uptime:.2f}",
            ran=round(ran * 1e9),
            waited=round(waited * 1e9),
            vhost=round(vhost * 1e9),
            softirq=softirq,
        )
    )


BEFORE, AFTER = Look.parse(said(100)), Look.parse(said(110, 3, 6.5, 9.9, 200))


def test_processes_and_threads_are_read() -> None:
    assert AFTER.names[7, 7] == "kworker/0:1 (x) y"
    assert AFTER.commands == {
        1: "/sbin/init ",
        100: "/usr/bin/qemu -name guest=vperf-1,debug-threads=on ",
        200: "sh -c one two ",
    }
    assert AFTER.times[100, 101] == (3.0, 6.5)
    assert AFTER.interrupts == {0: 2, 1: 0}


def test_the_busiest_threads_come_first() -> None:
    found = uses(BEFORE, AFTER)
    assert [(use.name, round(use.share)) for use in found[:3]] == [
        ("vhost-100", 99),
        ("CPU 0/KVM", 30),
        ("softirq of CPU 0", 20),
    ]
    assert found[1].wanted == pytest.approx(95)


def test_a_spinning_thread_wants_a_whole_processor() -> None:
    """Also where it has to wait for its turn."""
    (spinner,) = (use for use in uses(BEFORE, Look.parse(said(110, 6, 4))) if use.share)
    assert (spinner.name, spinner.process) == ("CPU 0/KVM", 100)
    assert spinner.share == pytest.approx(60)
    assert spinner.wanted == pytest.approx(100)


def test_a_sleeping_thread_wants_no_processor() -> None:
    (sleeper,) = (use for use in uses(BEFORE, AFTER) if use.name == "qemu-system-x86")
    assert (sleeper.share, sleeper.wanted) == (0, 0)


def test_threads_are_named_by_their_role() -> None:
    who = (
        virtual_cpu("the sender's processor", "vperf-1", source=True),
        vhost("its vhost-net thread", "vperf-1"),
    )
    busy = named(uses(BEFORE, AFTER), who)
    assert [(each.name, round(each.share), round(each.wanted), each.source) for each in busy] == [
        ("the sender's processor", 30, 95, True),
        ("its vhost-net thread", 99, 99, False),
    ]
    # Whoever else has half of a processor is told of.
    assert [each.name for each in named(uses(BEFORE, AFTER), ())] == ["vhost-100"]
    with pytest.raises(TargetError, match="no thread could be its vhost-net thread"):
        named(uses(BEFORE, AFTER), [vhost("its vhost-net thread", "vperf-12")])


def test_a_vhost_thread_may_be_qemus_own() -> None:
    found = [
        Use(5, "qemu-system-x86", "qemu -name guest=a,x", 1, 1),
        Use(5, "vhost-5", "qemu -name guest=a,x", 97, 98),
        Use(6, "vhost-6", "qemu -name guest=b,x", 3, 4),
    ]
    assert named(found[:2], [vhost("vhost", "a")]) == (Busy("vhost", 97, 98),)


def test_another_thread_with_the_number_of_one_that_ended_is_left_out() -> None:
    text = said(110, 3, 0, 9).stdout.replace("(vhost-100)", "(somebody)")
    assert "somebody" not in {use.name for use in uses(BEFORE, Look.parse(Output(text)))}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is not whole"),
        (said(1).stdout[:-4], "it is not whole"),
        ("clock\n1.00 2.00\ntimes\nnames\ncommands\nend\n", "there is no thread in it"),
        (said(1).stdout.replace("1.00 1000", "x 1000"), "the uptime is 'x'"),
        (said(1).stdout.replace(":5 6 7", ":-5 6 7"), "the time it ran is -5"),
    ],
)
def test_bad_arguments_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        Look.parse(Output(text))


def test_a_kernel_without_such_accounts() -> None:
    nothing = Look(2.0, {(1, 1): "init"}, {}, {(1, 1): (0.0, 0.0)}, {})
    with pytest.raises(
        Unavailable, match=r"does not account .* \(to mend it: a kernel with CONFIG_SCHED"
    ):
        uses(Look(1.0, {}, {}, {}, {}), nothing)
    with pytest.raises(TargetError, match="two looks at one moment"):
        uses(nothing, nothing)
    # Where they are left out of a kernel, there are no files of them either.
    before, after = (
        Look.parse(Output(said(uptime).stdout.replace("schedstat", "gone"))) for uptime in (1, 2)
    )
    with pytest.raises(Unavailable, match="does not account"):
        uses(before, after)


class Here:
    """This machine, as far as it is looked at."""

    name = "here"

    def __init__(self) -> None:
        self.looks = threading.Semaphore(0)

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        self.looks.release()
        done = subprocess.run(list(argv), capture_output=True, check=False)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr, 0.0)


@pytest.fixture
def here() -> Target:
    return Here()  # type: ignore[return-value]


@contextlib.contextmanager
def program(text: str) -> Iterator[str]:
    """Runs one that says when it has begun; gives a word of its command."""
    word = f"word-{time.monotonic_ns()}"
    text = f"import time; print('begun', flush=True)\n{text}"
    with subprocess.Popen([sys.executable, "-c", text, word], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            yield word
        finally:
            process.kill()


def test_a_spinning_process_is_busier_than_a_sleeping_one() -> None:
    here = Here()
    with program("while True: pass") as spins, program("time.sleep(1000)") as sleeps:
        who = [command("the spinner", spins), command("the sleeper", sleeps)]
        with Watch(here, who, after=0.2, window=0.6) as watch:  # type: ignore[arg-type]
            for _ in range(2):
                assert here.looks.acquire(timeout=60)
    spinner, sleeper, *_ = watch.busy()
    assert (spinner.name, sleeper.name) == ("the spinner", "the sleeper")
    # How much it gets, and how long one look takes, is for the other programs on this machine to say.
    assert spinner.share > sleeper.share
    assert spinner.wanted > sleeper.wanted
    assert 0 < spinner.share <= spinner.wanted


def test_what_goes_wrong_while_looking_is_told_afterwards() -> None:
    looked_at = threading.Event()

    class Gone:
        name = "gone"

        def run(self, argv: Sequence[str], **_: Any) -> Completed:
            looked_at.set()
            raise TargetError("it is gone")

    with Watch(Gone(), (), after=0, window=0) as watch:  # type: ignore[arg-type]
        assert looked_at.wait(60)
    with pytest.raises(TargetError, match="it is gone"):
        watch.busy()


def test_a_failed_measurement_ends_the_window_at_once(here: Target) -> None:
    began = time.monotonic()
    with (
        pytest.raises(KeyError),
        Watch(here, (), after=60, window=60),
    ):
        raise KeyError
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("after", [0.0, 60.0])
def test_a_window_that_what_was_watched_did_not_fill_tells_nothing(
    here: Target, after: float
) -> None:
    with Watch(here, (), after=after, window=60) as watch:
        time.sleep(0.5)
    with pytest.raises(
        TargetError,
        match=r"what ran on here ended before its processors had been looked at twice: .* longer",
    ):
        watch.busy()


def test_the_window_ends_when_it_should_however_long_a_look_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments: list[float] = []
    clock = Clock()
    monkeypatch.setattr(processors, "time", clock)

    class Longer(threading.Event):
        """What is watched does not end before the window, and waiting takes no time of this machine's."""

        def wait(self, timeout: float | None = None) -> bool:
            clock.sleep(timeout or 0)
            return False

    class Far:
        name = "far"

        def run(self, argv: Sequence[str], **_: Any) -> Completed:
            moments.append(clock.now)
            clock.sleep(0.4)
            return Completed((), 0, said(len(moments), len(moments)).stdout.encode(), b"", 0.4)

    began = clock.now
    watch = Watch(Far(), (), after=0.1, window=0.6)  # type: ignore[arg-type]
    watch._ended = Longer()
    with watch:
        pass
    assert watch.busy()[0].name == "CPU 0/KVM"
    assert [moment - began for moment in moments] == pytest.approx([0.1, 0.7])


def test_a_sender_with_time_left_was_held_back() -> None:
    def load(offered: float, *busy: Busy) -> Load:
        asked, sent, got = (Quantity(value, "packet/s") for value in (100.0, offered, 50.0))
        return Load(asked, sent, got, busy)

    idle, full = Busy("s", 20, 60, source=True), Busy("s", 40, 95, source=True)
    path = Busy("vhost", 100, 100)
    assert load(96).in_full
    assert not load(94).in_full
    assert load(60, idle, path).held_back
    assert not load(60, full, path).held_back  # it wanted more of a processor than it had
    assert not load(60, path).held_back
    assert not load(96, idle).held_back
    assert load(96, full).counts
    assert load(60, idle, path).counts
    assert not load(60, full, path).counts


def test_a_sender_that_could_not_do_more_may_have_done_enough() -> None:
    """Where most of it is lost on the way, it is not the sender that lets no more through."""

    def load(carried: float) -> Load:
        asked, sent, got = (Quantity(value, "packet/s") for value in (3_900_000, 300_000, carried))
        return Load(asked, sent, got, (Busy("s", 100, 100, source=True),))

    assert load(70_000).overrun
    assert load(70_000).counts
    # A link that loses some of everything is not full.
    assert not load(270_000).overrun
    assert not load(270_000).counts
