"""Real pods: QEMU, a kernel, the agent and a container, and everything that can go wrong between them."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from pytest_vperf.machine.runs import MARK, Run
from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    CommandFailed,
    TargetError,
    TimedOut,
    Unavailable,
)
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.pod.assets import prepare
from pytest_vperf.targets.pod.machine import PHASES
from pytest_vperf.targets.pod.pod import boot
from pytest_vperf.targets.pod.pods import IDLE, Pods
from pytest_vperf.targets.pod.probe import TIME_LIMITS, check, probe
from pytest_vperf.targets.scope import Scope

LIMIT = 300.0


@pytest.fixture(scope="module")
def assets(require):
    require("pod", check(afresh=False)[0])
    return prepare(default_rootfs())


@pytest.fixture
def run(runs_dir):
    with Run.begin() as run:
        yield run
        assert processes_of(run) == []


@pytest.fixture(scope="module")
def pod(assets):
    """One pod, shared by tests that only read from it."""
    with (
        Run.begin() as run,
        boot(
            assets, assets.config("tcg", "qboot"), "qboot", run, command=IDLE, timeout=LIMIT
        ) as pod,
    ):
        yield pod


def processes_of(run):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == run.id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def start(assets, run, firmware="qboot", command=IDLE, timeout=LIMIT, **settings):
    config = assets.config("tcg", firmware, **settings)
    return boot(assets, config, firmware, run, command=command, timeout=timeout)


@pytest.mark.parametrize("firmware", ["qboot", "seabios"])
def test_the_startup_time_is_the_sum_of_its_phases(assets, run, firmware):
    began = time.perf_counter()
    with start(assets, run, firmware) as pod:
        waited = (time.perf_counter() - began) * 1e3
        startup = pod.startup_time
        assert startup.unit == "ms"
        assert [name for name, _ in startup.breakdown] == list(PHASES)
        assert all(value > 0 for _, value in startup.breakdown)
        assert sum(value for _, value in startup.breakdown) == pytest.approx(startup.value)
        # No time is invented: the caller waited at least as long.
        assert startup.value <= waited
        details = pod.facts().details
        assert details["accelerator"] == "tcg"
        assert details["firmware"] == firmware
        assert re.fullmatch("[0-9a-f]{64}", details["firmware_sha256"])
        assert pod.run(["uname", "-r"]).text.strip() == details["guest_kernel"]


def test_a_command_runs_in_the_image(pod):
    done = pod.run(
        ["sh", "-c", "echo out; echo err >&2; pwd; echo $A"], env={"A": "b c"}, cwd="/tmp"
    )
    assert (done.text, done.stderr, done.returncode) == ("out\n/tmp\nb c\n", b"err\n", 0)
    assert pod.run(["cat", "/proc/1/cmdline"]).stdout == b"sleep\0infinity\0"
    assert pod.run(["hostname"]).text == "pod\n"


def test_input_and_output_of_any_size_pass(pod):
    data = os.urandom(700_000)
    assert pod.run(["cat"], input=data).stdout == data


def test_a_command_that_ignores_its_input_ends(pod):
    assert pod.run(["true"], input=b"x" * 1_000_000).returncode == 0


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-command"], 127),
        (["/etc"], 126),
        (["/etc/passwd"], 126),
    ],
)
def test_statuses_are_a_shells(pod, argv, status):
    assert pod.run(argv, check=False).returncode == status
    with pytest.raises(CommandFailed, match=rf"ended with status {status} in pod tcg qboot"):
        pod.run(argv)


def test_a_missing_folder_is_the_commands_failure(pod):
    with pytest.raises(CommandFailed, match="/nowhere: No such file or directory"):
        pod.run(["true"], cwd="/nowhere")


def test_a_time_limit_ends_the_command_with_its_children(pod):
    with pytest.raises(TimedOut) as caught:
        pod.run(["sh", "-c", "echo begun; sleep 1234 & sleep 1234"], timeout=1.0)
    assert caught.value.stdout == b"begun\n"
    assert "did not end within 1 s in pod tcg qboot; it was killed" in str(caught.value)
    assert "1234" not in pod.run(["ps"]).text


def test_a_child_that_keeps_the_pipes_does_not_keep_the_command(pod):
    began = time.perf_counter()
    assert pod.run(["sh", "-c", "sleep 60 & echo done"], timeout=50).text == "done\n"
    assert time.perf_counter() - began < 40
    pod.run(["pkill", "sleep"], check=False)


def test_files_pass_with_their_mode(pod, tmp_path):
    source = tmp_path / "with a space"
    source.write_bytes(os.urandom(3_000_000))
    source.chmod(0o751)
    pod.put(source, "/tmp/file")
    assert pod.run(["stat", "-c", "%a %s", "/tmp/file"]).text == "751 3000000\n"
    pod.get("/tmp/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    source.write_bytes(b"")
    pod.put(source, "/tmp/file")
    assert pod.run(["wc", "-c", "/tmp/file"]).text == "0 /tmp/file\n"


def test_files_that_cannot_be_copied_say_why(pod, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(TargetError, match="/no/where: No such file or directory"):
        pod.put(tmp_path / "f", "/no/where")
    with pytest.raises(TargetError, match="/absent: No such file or directory"):
        pod.get("/absent", tmp_path / "g")
    with pytest.raises(TargetError, match="/etc: Is a directory"):
        pod.get("/etc", tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_a_nul_character_is_refused_before_it_is_sent(pod):
    with pytest.raises(TargetError, match="NUL"):
        pod.run(["echo", "a\0b"])


def test_usage_is_that_of_qemu(pod):
    usage = pod.usage()
    assert usage.cpu_time > 0.1
    assert usage.memory is not None
    assert usage.memory > 50 << 20


def test_pods_do_not_see_each_others_writes(assets, run):
    with start(assets, run) as first:
        first.run(["sh", "-c", "echo mine > /etc/passwd"])
        assert first.run(["cat", "/etc/passwd"]).text == "mine\n"
    with start(assets, run, vcpus=2, memory_mib=256) as second:
        assert second.run(["cat", "/etc/passwd"]).text.startswith("root:")
        assert second.run(["nproc"]).text == "2\n"
        total = int(second.run(["sh", "-c", "awk '/MemTotal/{print $2}' /proc/meminfo"]).text)
        assert 150_000 < total < 256 * 1024


@contextlib.contextmanager
def killing(run, when):
    """Kill the run's processes as soon as it is time, while the block runs."""

    def kill():
        deadline = time.monotonic() + LIMIT
        while not when() and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid in processes_of(run):
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def qemu_runs(run):
    # Before it is QEMU, a process is a copy of this one.
    names = [psutil.Process(pid).name() for pid in processes_of(run)]
    return any(name.startswith("qemu") for name in names)


def test_qemu_killed_during_boot(assets, run):
    with (
        killing(run, lambda: qemu_runs(run)),
        pytest.raises(
            CannotStart, match=r"^pod tcg qboot: QEMU was killed by signal 9 in the phase '\w+'"
        ),
    ):
        start(assets, run)


def test_qemu_killed_while_a_command_runs(assets, run):
    with start(assets, run) as pod:
        with (
            killing(run, pod._lock.locked),
            pytest.raises(
                CannotConnect, match="pod tcg qboot is gone: it ended while sleep 60 ran"
            ),
        ):
            pod.run(["sleep", "60"])
        with pytest.raises(CannotConnect):
            pod.run(["true"])
        with pytest.raises(CannotConnect):
            pod.usage()


def test_a_machine_that_never_gets_ready_is_ended_at_the_time_limit(assets, run):
    with pytest.raises(
        TimedOut,
        match=r"pod tcg qboot was not ready in time: it never left its phase '(process|firmware|kernel)'",
    ):
        start(assets, run, timeout=0.7)


def test_a_qemu_that_does_not_answer_is_ended_at_the_time_limit(assets, run):
    with pytest.raises(
        TimedOut, match=r"never left its phase 'process' \(QEMU did not answer \(\S+\) within"
    ):
        start(assets, run, timeout=0.001)


def test_a_container_without_its_command_does_not_start(assets, run):
    with pytest.raises(
        CannotStart,
        match="the container did not start: /no/such/command: No such file or directory",
    ):
        start(assets, run, command=("/no/such/command",))


def test_a_container_that_ends_at_once_has_not_started(assets, run):
    with pytest.raises(
        CannotStart, match=r"its container ended at once \(sh -c .*\) with status 3:\nno config"
    ):
        start(assets, run, command=("sh", "-c", "echo no config >&2; exit 3"))


def test_a_container_that_ends_later_is_gone(assets, run):
    with start(assets, run, command=("sleep", "2")) as pod:
        time.sleep(10)
        with pytest.raises(CannotConnect, match="the container of pod tcg qboot is gone"):
            pod.run(["true"], check=False)


def test_a_probe_that_failed_temporarily_is_tried_again(assets, run, monkeypatch):
    monkeypatch.setitem(TIME_LIMITS, "tcg", 0.3)
    failed = probe("tcg", lambda: assets, run, afresh=True)
    assert not failed.usable
    assert failed.why == "a guest kernel did not reach a running container within 0.3 s"
    monkeypatch.undo()
    assert probe("tcg", lambda: assets, run).usable


def test_too_little_memory_shows_the_consoles_last_words(assets, run):
    with pytest.raises(TargetError, match=r"(console|QEMU)"):
        start(assets, run, memory_mib=20, timeout=20.0)


def test_an_invalid_kernel_with_a_valid_header_does_not_hang(assets, run, tmp_path):
    kernel = tmp_path / "vmlinuz"
    image = bytearray(assets.kernel.image.read_bytes())
    image[0x4000:] = os.urandom(len(image) - 0x4000)
    kernel.write_bytes(image)
    broken = prepare(default_rootfs(), kernel)
    with pytest.raises((CannotStart, TimedOut)):
        start(broken, run, timeout=5.0)


def test_unknown_firmware_accelerators_and_bad_sizes_are_refused(assets, run):
    with pytest.raises(CannotStart, match="unknown firmware 'ovmf': choose one of qboot, seabios"):
        assets.config("tcg", "ovmf")
    with pytest.raises(
        CannotStart, match="unknown accelerator 'hvf': choose one of auto, kvm, tcg, xen"
    ):
        Pods(lambda: assets, run, Scope(), accelerator="hvf")
    pods = Pods(lambda: assets, run, Scope(), accelerator="tcg")
    with pytest.raises(CannotStart, match="a pod with vcpus = 0 cannot start"):
        pods.start(vcpus=0)


def test_a_pod_belongs_to_its_scope(assets, run):
    scope = Scope()
    pods = Pods(lambda: assets, run, scope, accelerator="tcg")
    pod = pods.start(memory="256 MiB")
    assert scope.facts[0].name == "pod tcg qboot"
    scope.close_since()
    assert not psutil.pid_exists(pod.pid)


def test_auto_chooses_the_fastest_working_accelerator_and_says_why(assets, run):
    scope = Scope()
    pods = Pods(lambda: assets, run, scope)
    kvm = probe("kvm", lambda: assets, run)
    with pods.start(memory="256 MiB"):
        details = scope.facts[0].details
        assert details["accelerator"] == ("kvm" if kvm.usable else "tcg")
        why = "auto: kvm works" if kvm.usable else f"auto: no kvm: {kvm.why}"
        assert details["why_accelerator"] == why
    scope.close_since()


def test_xen_and_a_kvm_that_does_not_work_are_unavailable(assets, run):
    for accelerator in ("kvm", "xen"):
        readiness = probe(accelerator, lambda: assets, run)
        pods = Pods(lambda: assets, run, Scope(), accelerator=accelerator)
        if readiness.usable:
            pods.start()
            continue
        with pytest.raises(Unavailable) as caught:
            pods.start()
        assert caught.value.reason == f"{accelerator}: {readiness.why}"
        assert caught.value.target == {"kvm": "pod kvm qboot", "xen": "pod xen"}[accelerator]


def test_a_probe_is_remembered_until_the_host_reboots(assets, run):
    first = probe("tcg", lambda: assets, run, afresh=True)
    assert first.usable, first.why
    assert probe("tcg", lambda: assets, run) == first


OWNER = """
import sys, time
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.pod.assets import prepare
from pytest_vperf.targets.pod.pod import boot
assets = prepare(default_rootfs())
run = Run.begin()
pod = boot(assets, assets.config("tcg", "qboot"), "qboot", run, command=("sleep", "infinity"), timeout=120)
print(pod.pid, run.folder, flush=True)
time.sleep(600)
"""


def test_a_pod_whose_owner_was_killed_ends_itself(assets, runs_dir):
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid, folder = owner.stdout.readline().split()
    owner.kill()
    owner.wait()
    owner.stdout.close()
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(pid)).wait(30)
    assert not psutil.pid_exists(int(pid))
    assert Path(folder).is_dir()  # left for the next run to sweep
    from pytest_vperf.machine import leftovers

    leftovers.remove([item for item in leftovers.find() if item.run in folder])
    assert not Path(folder).exists()
