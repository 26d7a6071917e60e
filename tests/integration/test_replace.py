"""Really replacing a pod's container: one pod, several replacements, and nothing left of the previous container."""

from __future__ import annotations

import io
import os
import signal
import tarfile
import threading
import time
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError
from pytest_vperf.targets.image.rootfs import default_rootfs, from_tar
from pytest_vperf.targets.pod.assets import Assets, prepare
from pytest_vperf.targets.pod.footprint import Footprint
from pytest_vperf.targets.pod.pod import IDLE, REPLACEMENT_PHASES, Pod, boot
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.targets.pod.probe import check
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from pytest_vperf.targets.image.rootfs import Rootfs

LIMIT = 300.0


@pytest.fixture(scope="module")
def assets(require: Any) -> Assets:
    require("pod", check(afresh=False)[0])
    return prepare(default_rootfs())


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with Run.begin() as run:
        yield run


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Rootfs:
    """The usual image and a file more."""
    path = tmp_path_factory.mktemp("image") / "other.tar"
    path.write_bytes(default_rootfs().path.read_bytes())
    with tarfile.open(path, "a") as archive:
        member = tarfile.TarInfo("of-the-other")
        member.size = 6
        archive.addfile(member, io.BytesIO(b"other\n"))
    return from_tar(path)


def start(assets: Assets, run: Run, machine: str = "q35", firmware: str = "qboot") -> Pod:
    config = assets.config("tcg", firmware, machine=machine, replaceable=True, memory_mib=256)
    return boot(assets, config, firmware, run, command=IDLE, timeout=LIMIT)


@pytest.fixture(scope="module")
def pod(assets: Assets, run: Run) -> Iterator[Pod]:
    """One machine for all successful replacements."""
    with start(assets, run) as pod:
        yield pod


def available(pod: Pod) -> list[int]:
    """MemAvailable at several moments, in MiB."""
    found = []
    for _ in range(5):
        text = pod.run(["cat", "/proc/meminfo"]).text
        found += [
            int(line.split()[1]) >> 10 for line in text.splitlines() if "MemAvailable" in line
        ]
        time.sleep(0.2)
    return found


def lost(before: list[int], after: list[int]) -> int:
    """MiB lost beyond the usual variation of readings; negative where none are."""
    spread = max(before) - min(before) + max(after) - min(after)
    return min(before) - max(after) - spread


def test_nothing_of_the_container_before_is_left(pod: Pod, other: Rootfs) -> None:
    kernel = pod.run(["cat", "/proc/sys/kernel/random/boot_id"]).text
    before = available(pod)
    pod.run(["dd", "if=/dev/urandom", "of=/left", "bs=1M", "count=64"])
    pod.run(["sh", "-c", "echo mine > /etc/passwd; sleep 4321 >/dev/null 2>&1 & exit 0"])
    assert lost(before, available(pod)) > 0
    assert "4321" in pod.run(["ps"]).text
    began = time.perf_counter()
    took = pod.replace(other, command=("sleep", "1000000"))
    waited = (time.perf_counter() - began) * 1e3
    assert [name for name, _ in took.breakdown] == list(REPLACEMENT_PHASES)
    assert all(value > 0 for _, value in took.breakdown)
    assert took.value == pytest.approx(sum(value for _, value in took.breakdown))
    assert took.value <= waited
    # The same machine, another image, and none of the files, processes and memory of the one before.
    assert pod.run(["cat", "/proc/sys/kernel/random/boot_id"]).text == kernel
    assert pod.run(["cat", "/of-the-other"]).text == "other\n"
    assert pod.run(["cat", "/left"], check=False).returncode == 1
    assert pod.run(["cat", "/etc/passwd"]).text.startswith("root:")
    processes = pod.run(["ps"]).text
    assert "4321" not in processes
    assert "sleep infinity" not in processes
    assert "sleep 1000000" in processes
    assert lost(before, available(pod)) < 8
    assert pod.facts().details["rootfs_sha256"] == other.sha256
    # Of the disks only the new one is there.
    assert pod.run(["sh", "-c", "cat /sys/block/vd*/serial"]).text == "vperf-image1"


def test_repeated_replacements_leave_nothing(pod: Pod, assets: Assets) -> None:
    first = available(pod)
    for _ in range(6):
        pod.replace(assets.rootfs)
        assert len(pod.run(["sh", "-c", "ls -d /sys/block/vd*"]).text.split()) == 1
    assert pod.run(["cat", "/of-the-other"], check=False).returncode == 1
    assert lost(first, available(pod)) < 8


def test_bad_replacements_change_nothing(pod: Pod, tmp_path: Path) -> None:
    pod.run(["touch", "/kept"])
    with pytest.raises(CannotStart, match=r"missing\.tar"):
        pod.replace(tmp_path / "missing.tar")
    running = threading.Thread(target=pod.run, args=(["sleep", "5"],))
    running.start()
    while not pod._lock.locked():
        time.sleep(0.01)
    with pytest.raises(TargetError, match="cannot be replaced while a command runs in it"):
        pod.replace()
    running.join()
    pod.run(["cat", "/kept"])


NO_SUCH = (("/no/such",), "did not start: /no/such: No such file or directory")
AT_ONCE = (("sh", "-c", "echo no >&2; exit 3"), r"ended at once \(sh -c .*\) with status 3:\nno")


@pytest.mark.parametrize(
    ("machine", "firmware", "command", "words"),
    [("q35", "seabios", *AT_ONCE), ("pc", "qboot", *NO_SUCH)],
)
def test_replacing_works_on_other_machine_types(
    assets: Assets, run: Run, machine: str, firmware: str, command: tuple[str, ...], words: str
) -> None:
    """The last of each is a replacement that fails, which ends the machine."""
    with start(assets, run, machine, firmware) as pod:
        for _ in range(2):
            pod.replace()
        pod.run(["true"])
        with pytest.raises(CannotStart, match=words):
            pod.replace(command=command)
        with pytest.raises(CannotConnect, match="is gone"):
            pod.run(["true"])


def test_a_machine_killed_during_a_replacement_is_reported(pod: Pod) -> None:
    """The end of the machine that all tests above had."""
    os.kill(pod.pid, signal.SIGSTOP)  # it cannot answer before it dies

    def kill() -> None:
        while not pod._lock.locked():
            time.sleep(0.01)
        time.sleep(0.5)  # by now it waits for the answer
        os.kill(pod.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(
        CannotStart, match="was killed by signal 9 in the phase 'disk of a replacement'"
    ):
        pod.replace()
    killer.join()
    with pytest.raises(CannotConnect, match="its container cannot be replaced"):
        pod.replace()


def test_the_minimum_memory_of_a_pod(assets: Assets, run: Run) -> None:
    scope = Scope()
    pods = Pods(lambda: assets, run, scope, accelerator="tcg")
    try:
        least = Footprint({}).minimum_memory(pods, top="128 MiB")
        size = round(least.memory.value)
        at_border = [each.answer for each in least.found.tries if each.size == size]
        below = [each.answer for each in least.found.tries if each.size == size - 1]
        assert [answer.works for answer in at_border[-2:]] == [True, True]
        # Near the border a start may fail by chance, so one below it may work as well.
        failed = [answer.words for answer in below if not answer.works]
        assert failed
        kinds = ("panic: ", "no boot: ", "out of memory: ")
        assert all(words.startswith(kinds) for words in failed)
        facts = scope.facts[-1]
        assert facts.details["memory"] == f"{size} MiB"
        told = f"contradiction (MiB): {size - 1} worked and failed"
        assert (told in facts.details["memory_search"]) == (len(failed) < len(below))
        assert facts.details["memory_search"].startswith("128 MiB starts; 64 MiB ")
    finally:
        scope.close_since()
