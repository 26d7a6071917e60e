"""Changing and restoring settings, on files in place of the kernel's: crashes, refusals, messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.commands import tune
from pytest_vperf.machine import leftovers
from pytest_vperf.machine.noise_settings import settings
from pytest_vperf.machine.processes import wait_gone
from pytest_vperf.machine.restore_settings import JournalError, load, state
from pytest_vperf.machine.tuning import (
    Busy,
    TuningError,
    changes,
    journal_path,
    left_over,
    recover,
    tuned,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.machine.tuning import Change

    Put = Callable[[Mapping[str, str | None]], Path]

CPU = "sys/devices/system/cpu"
THP = "sys/kernel/mm/transparent_hugepage"
QUIET = {
    f"{CPU}/intel_pstate/no_turbo": "1",
    f"{CPU}/cpufreq/policy0/scaling_governor": "performance",
    f"{CPU}/cpufreq/policy1/scaling_governor": "performance",
    f"{THP}/enabled": "madvise",
    f"{THP}/defrag": "madvise",
    "proc/sys/kernel/numa_balancing": "0",
    "proc/sys/vm/swappiness": "1",
}
# Writable by its owner; accepts only numbers (proc_pid_oom_score_adj(5)).
STUBBORN = "/proc/self/oom_score_adj"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    monkeypatch.setenv("VPERF_RUNS_DIR", str(folder))
    return folder


def states(root: Path) -> dict[str, str]:
    """The content of each file of a machine."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(root).as_posix(): state(path.read_text()) for path in found}


def planned(root: Path, *also: str) -> list[Change]:
    return changes(root, settings(root), also)


def test_settings_are_changed_and_restored(root: Path) -> None:
    before = states(root)
    with tuned(root, planned(root)):
        assert states(root) == before | QUIET
        assert json.loads(journal_path().read_text())["pid"] == os.getpid()
        assert journal_path().stat().st_mode & 0o777 == 0o600
    assert states(root) == before
    assert not journal_path().exists()


def test_settings_with_other_effects_are_changed_only_if_asked_for(root: Path) -> None:
    with tuned(root, planned(root, "aslr", "smt")):
        now = states(root)
    assert now[f"{CPU}/smt/control"] == "off"
    assert now["proc/sys/kernel/randomize_va_space"] == "0"


def test_differing_processors_are_restored_each(root: Path, put: Put) -> None:
    put({f"{CPU}/cpufreq/policy1/scaling_governor": "userspace\n"})
    with tuned(root, planned(root)):
        now = states(root)
        assert now[f"{CPU}/cpufreq/policy0/scaling_governor"] == "performance"
        assert now[f"{CPU}/cpufreq/policy1/scaling_governor"] == "userspace"
    assert states(root)[f"{CPU}/cpufreq/policy0/scaling_governor"] == "powersave"


def test_settings_that_the_kernel_changes_along_are_restored_too(root: Path, put: Put) -> None:
    before = states(root)
    with tuned(root, planned(root, "smt")):
        put(
            {
                f"{CPU}/cpufreq/policy0/energy_performance_preference": "performance\n",
                f"{CPU}/cpufreq/policy1/scaling_max_freq": "3400000\n",
                f"{CPU}/cpu1/online": "0\n",
            }
        )
    assert states(root) == before


def test_an_outdated_plan_is_refused(root: Path, put: Put) -> None:
    plan = planned(root)
    put({f"{THP}/enabled": "always [madvise] never\n"})
    before = states(root)
    with pytest.raises(TuningError) as raised, tuned(root, plan):
        pytest.fail("it was followed")
    assert str(raised.value) == f"{root / THP}/enabled was changed meanwhile; try again"
    assert states(root) == before


def test_an_exception_restores_every_setting(root: Path) -> None:
    before = states(root)
    with pytest.raises(ZeroDivisionError), tuned(root, planned(root)):
        1 / 0  # noqa: B018
    assert states(root) == before


def stubborn(path: Path) -> None:
    """Make a file refuse writes."""
    path.unlink()
    path.symlink_to(STUBBORN)


def test_a_refused_write_restores_everything(root: Path) -> None:
    path = root / CPU / "cpufreq/policy1/scaling_governor"
    stubborn(path)
    before = states(root)
    with pytest.raises(TuningError) as raised, tuned(root, planned(root)):
        pytest.fail("it was not changed")
    assert str(raised.value) == f"{path} could not be set to 'performance': Invalid argument"
    assert states(root) == before
    assert not journal_path().exists()


def test_a_setting_that_cannot_be_restored_is_named_and_the_journal_kept(root: Path) -> None:
    path = root / CPU / "cpufreq/policy1/scaling_governor"
    before = states(root)
    with pytest.raises(TuningError) as raised, tuned(root, planned(root)):
        stubborn(path)
    assert str(raised.value).splitlines() == [
        f"{path} could not be set back to 'powersave': Invalid argument",
        f"the earlier state is kept in {journal_path()}; `vperf clean` tries again",
    ]
    assert states(root) == {
        name: text for name, text in before.items() if not name.endswith("1/scaling_governor")
    }
    path.unlink()
    path.write_text("performance\n")
    assert recover() == f"the settings that process {os.getpid()} had changed are as they were"
    assert states(root) == before
    assert recover() == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_an_unwritable_file_is_found_before_anything_is_changed(root: Path) -> None:
    path = root / THP / "enabled"
    path.chmod(0o444)
    before = states(root)
    with pytest.raises(TuningError) as raised, tuned(root, planned(root)):
        pytest.fail("it was not changed")
    assert str(raised.value) == f"{path} cannot be written: this needs root"
    assert states(root) == before


# Changes the settings of a machine, says so, and runs the test's code.
TUNES = """
import os, signal, sys, time
from pathlib import Path
from pytest_vperf.machine.noise_settings import settings
from pytest_vperf.machine.tuning import tuned
from pytest_vperf.machine.tuning import changes
root = Path(sys.argv[1])
with tuned(root, changes(root, settings(root))):
    print("tuned", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(root: Path) -> subprocess.Popen[str]:
    """Another process that has changed the settings; the test kills it."""
    process = subprocess.Popen(
        [sys.executable, "-c", TUNES, str(root)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "tuned\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_the_guardian_restores_after_kill_9(
    root: Path, put: Put, other: subprocess.Popen[str]
) -> None:
    (guardian,) = psutil.Process(other.pid).children()
    assert states(root)[f"{CPU}/intel_pstate/no_turbo"] == "1"
    guardian.send_signal(signal.SIGINT)  # it hears none of these
    guardian.send_signal(signal.SIGTERM)
    kill(other)
    assert wait_gone([guardian], 30) == []
    assert (
        states(root).items()
        >= {f"{CPU}/intel_pstate/no_turbo": "0", f"{THP}/enabled": "always"}.items()
    )
    assert not journal_path().exists()
    assert leftovers.find() == []


def test_without_a_guardian_the_journal_restores(root: Path, other: subprocess.Popen[str]) -> None:
    (guardian,) = psutil.Process(other.pid).children()
    assert leftovers.find() == []  # it lives
    guardian.kill()
    assert wait_gone([guardian], 10) == []  # it has the lock until it is
    kill(other)
    assert states(root)[f"{CPU}/intel_pstate/no_turbo"] == "1"
    (found,) = leftovers.find()
    assert (found.run, found.kind) == (str(other.pid), "settings")
    assert leftovers.remove([found]) == []
    assert states(root)[f"{CPU}/intel_pstate/no_turbo"] == "0"
    assert not journal_path().exists()
    assert leftovers.find() == []


def test_two_at_once_are_refused(
    root: Path, other: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        now = states(root)
        with pytest.raises(Busy), tuned(root, []):
            pytest.fail("it was not refused")
        assert tune.run(apply=True, root=root) == 1
        assert capsys.readouterr() == (
            "",
            f"vperf doctor --tune: process {other.pid} has changed the settings of this machine, and will "
            "restore them; wait for its end, or end it\n",
        )
        assert tune.run(root=root) == 0  # looking is allowed
        assert states(root) == now
    finally:
        kill(other)
    deadline = time.monotonic() + 30
    while journal_path().exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def journal(root: Path, /, **parts: object) -> Path:
    """The journal of a killed process."""
    document = {
        "format": 1,
        "boot": "11111111-2222-3333-4444-555555555555",
        "pid": 4321,
        "root": str(root),
        "entries": [{"path": f"{THP}/enabled", "before": "always madvise [never]\n"}],
    }
    path = journal_path()
    path.write_text(json.dumps(document | parts))
    path.chmod(0o600)
    return path


def test_a_journal_of_another_boot_is_dropped(root: Path) -> None:
    before = states(root)
    path = journal(root, boot="00000000-0000-0000-0000-000000000000")
    assert left_over() == ("4321", f"{path}, of an earlier boot")
    assert (
        recover() == f"{path} is of an earlier boot, which has reset the settings; it was removed"
    )
    assert not path.exists()
    assert states(root) == before


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"entries": [{"path": "etc/passwd", "before": "x"}]},
            "names 'etc/passwd', which is not one of our settings",
        ),
        (
            {"entries": [{"path": f"{THP}/../../../../etc/passwd", "before": "x"}]},
            f"names '{THP}/../../../../etc/passwd', which is not one of our settings",
        ),
        (
            {"entries": [{"path": f"{THP}/enabled", "before": ""}]},
            f"holds no value of {THP}/enabled",
        ),
        ({"entries": [{"path": f"{THP}/enabled"}]}, "is damaged"),
        ({"entries": 3}, "is damaged"),
        ({"pid": "x"}, "is damaged"),
        ({"root": None}, "is damaged"),
    ],
)
def test_an_invalid_journal_is_not_followed(
    root: Path, parts: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = states(root)
    path = journal(root, **parts)
    assert tune.run(apply=True, root=root) == 1
    assert capsys.readouterr().err == (
        f"vperf doctor --tune: {path} {said}; it holds what settings were before a process that was killed "
        "changed them: look into it, set them back, and remove it\n"
    )
    assert path.exists()
    assert states(root) == before
    (found,) = leftovers.find()
    assert leftovers.remove([found])[0].startswith(
        f"run -: settings {path} {said} could not be removed: "
    )


def test_a_journal_that_is_not_private_is_not_followed(root: Path, tmp_path: Path) -> None:
    path = journal(root)
    path.chmod(0o644)
    with pytest.raises(JournalError, match="is open to other users"):
        load(path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        load(path)
    with pytest.raises(TuningError):
        recover()


def test_a_setting_that_could_not_be_restored_is_not_changed(root: Path, put: Put) -> None:
    put({f"{CPU}/cpufreq/policy1/scaling_governor": "s\x00p\n"})
    before = states(root)
    with pytest.raises(TuningError) as raised, tuned(root, planned(root)):
        pytest.fail("it was not changed")
    assert (
        str(raised.value)
        == f"the earlier state holds no value of {CPU}/cpufreq/policy1/scaling_governor"
    )
    assert states(root) == before


# `vperf doctor --tune --apply` on another machine than this one.
APPLIES = """
import sys
from pathlib import Path
from pytest_vperf.commands import tune
sys.exit(tune.run(apply=True, root=Path(sys.argv[1]), command=sys.argv[2:]))
"""


def applying(root: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPLIES, str(root), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


CHANGED = (
    "vperf: changed turbo, CPU governor, transparent huge pages, defragmentation for huge pages, "
    "NUMA balancing, swap in use\n"
)
RESTORED = CHANGED.replace("changed", "restored")
WAITING = "vperf: waiting; Ctrl-C restores them\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, None])
def test_without_a_command_apply_waits_for_a_signal(
    root: Path, number: signal.Signals | None
) -> None:
    before = states(root)
    # Under nohup these tests and their children would ignore SIGHUP.
    earlier = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = applying(root)
    signal.signal(signal.SIGHUP, earlier)
    assert process.stderr is not None
    assert process.stderr.readline() == CHANGED
    assert process.stderr.readline() == WAITING
    assert states(root) == before | QUIET
    if number is not None:
        process.send_signal(number)
        assert process.wait(60) == 0
    _, rest = process.communicate(timeout=60)  # without a signal the end of its input ends it
    assert (process.returncode, rest) == (0, RESTORED)
    assert states(root) == before


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["sh", "-c", "exit 7"], 7, ""),
        (["sh", "-c", "kill -9 $$"], 137, ""),
        (["no-such-program"], 127, "vperf: no-such-program: No such file or directory\n"),
        (["/"], 126, "vperf: /: Permission denied\n"),
    ],
)
def test_the_status_of_the_command_is_returned(
    root: Path, command: list[str], status: int, said: str
) -> None:
    before = states(root)
    process = applying(root, *command)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (status, "", f"{CHANGED}{said}{RESTORED}")
    assert states(root) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_command(root: Path, number: signal.Signals) -> None:
    before = states(root)
    program = "import time\nprint('runs', flush=True)\ntime.sleep(60)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", APPLIES, str(root), sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # without a terminal, so nothing else signals the command
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    assert states(root) == before | QUIET
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert states(root) == before


def test_a_quiet_machine_is_left_alone(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in QUIET.items():
        (root / name).write_text(f"[{text}]\n" if name.startswith(THP) else f"{text}\n")
    (root / "proc/swaps").write_text("Filename\n")
    assert tune.run(apply=True, command=["true"], root=root) == 0
    assert capsys.readouterr() == ("", "vperf: there is nothing to change\n")
    assert tune.run(apply=True, root=root) == 0
    assert capsys.readouterr().err == "vperf: there is nothing to change\n"


def test_settings_and_commands_are_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = states(root)
    assert tune.run(root=root) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert states(root) == before
    lines = out.splitlines()
    rows = [line.split(None, 1) for line in lines]
    assert ["governor", "powersave"] in rows
    begin = lines.index("as root, until the next boot (or with --apply, for a while):")
    cpu, thp = root / CPU, root / THP
    assert lines[begin + 1 :] == [
        f"  echo 1 > {cpu}/intel_pstate/no_turbo",
        f"  echo performance | tee {cpu}/cpufreq/policy*/scaling_governor",
        f"  echo madvise > {thp}/enabled",
        f"  echo madvise > {thp}/defrag",
        f"  echo 0 > {root}/proc/sys/kernel/numa_balancing",
        f"  echo 1 > {root}/proc/sys/vm/swappiness",
        "",
        "only if you want it (or with --also=aslr): each process has another memory layout, which changes "
        "its speed a little; it also protects from attacks",
        f"  echo 0 > {root}/proc/sys/kernel/randomize_va_space",
        "",
        "only if you want it (or with --also=smt): what runs on a core's other thread slows this one; "
        "without it half of the processors are gone",
        f"  echo off > {cpu}/smt/control",
    ]


# Prints how often it was interrupted, once it was.
COUNTS = """
import signal, time
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
print("runs", flush=True)
while not seen:
    time.sleep(0.01)
time.sleep(0.3)
print("interrupted", len(seen), flush=True)
"""


def test_ctrl_c_reaches_the_command_once(root: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    before = states(root)
    words = ["-c", APPLIES, str(root), sys.executable, "-c", COUNTS]
    terminal = pexpect.spawn(sys.executable, words, timeout=60, encoding="utf-8")
    terminal.expect_exact("runs")
    terminal.sendintr()
    terminal.expect_exact("interrupted 1")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert states(root) == before


@pytest.mark.parametrize("key", ["c", "d"])
def test_control_keys_end_the_waiting(root: Path, key: str) -> None:
    pexpect = pytest.importorskip("pexpect")
    before = states(root)
    terminal = pexpect.spawn(
        sys.executable, ["-c", APPLIES, str(root)], timeout=60, encoding="utf-8"
    )
    terminal.expect_exact("waiting; Ctrl-C restores them")
    assert states(root) == before | QUIET
    terminal.sendcontrol(key)
    terminal.expect_exact("restored turbo")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert states(root) == before
