"""Machines of a fleet that are none: namespaces of this one, each with its own sshd, on a network of their own.

A machine has namespaces of processes, mounts, host names and networks, another name of its processor, and folders for
locks and runs that no other sees. Whoever calls is in a further namespace of networks, with the bridge that all are
at. All of it is held by processes that end with this one; nothing is left of it when they have ended.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_vperf.machine.ending import start_bound
from pytest_vperf.machine.preflight import Readiness, find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

#: The names of processors that the types of machines have.
MODELS = {"type-a": "Example A 3000 v3 @ 3.40GHz", "type-b": "Example B 7443P 24-Core Processor"}
_SPACES = ("--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net")
_HERE = "hostname ctl; mount -t tmpfs none /run; mkdir /run/munge; touch {folder}/ready; exec sleep infinity"
_INIT = """
# A login has nothing of the shell of whoever tests: a machine that dies in it may leave a lock there, for all time.
[ ! -f ~/.bashrc ] || mount --bind /dev/null ~/.bashrc
hostname {name}
mount -t tmpfs -o mode=1777 none /var/tmp
mount -t tmpfs none /run; mkdir -m 1777 /run/lock; mkdir /run/sshd /run/munge
mount --bind {folder}/cpu-{name} /proc/cpuinfo
ip link set lo up
{before}
exec {sshd} -D -e -f {folder}/sshd_config
"""
_MUNGE = (
    "--force --key-file={folder}/munge.key --socket=/run/munge/munge.socket.2 --pid-file=/run/munged.pid"
    " --log-file={folder}/munge-{name}.log --seed-file={folder}/munge-{name}.seed"
)
_SLURMD = (
    f"mkdir -p /var/spool/slurmd; mount -t tmpfs none /var/spool/slurmd; munged {_MUNGE}\n"
    "slurmd -N {name} -f {folder}/slurm.conf -L {folder}/slurmd-{name}.log"
)
#: How soon a host that is silent is one that is down: 300 s by default.
_SLURM = """
ClusterName=fleet
SlurmctldHost=ctl(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=5,batch_sched_delay=1,bf_interval=5
SlurmdTimeout=20
KillWait=5
ReturnToService=2
PropagateResourceLimits=NONE
"""
_SSHD = """
Port 22
HostKey {folder}/host
PidFile none
UsePAM no
StrictModes no
AuthorizedKeysFile {folder}/user.pub
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
"""
_SSH = """
Host *
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
  User root
"""


def check() -> Readiness:
    """Whether such machines can be made here."""
    if os.geteuid() != 0:
        return Readiness(
            "fleet", False, "only root can make namespaces and links", "run it as root"
        )
    missing = [
        name
        for name in ("sshd", "ssh-keygen", "unshare", "nsenter", "ip")
        if not find_program(name)
    ]
    why = f"{', '.join(missing)} not installed"
    return Readiness("fleet", not missing, why, "apt-get install openssh-server iproute2")


@dataclass
class Rig:
    """The machines.

    Attributes:
        folder: with their files.
        types: of the machines that are up, by name.
        has_slurm: whether Slurm is to run on them.
    """

    folder: Path
    types: dict[str, str] = field(default_factory=dict)
    has_slurm: bool = False
    _held: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def ssh_config(self) -> Path:
        """The configuration for ``ssh``, which knows the machines by name."""
        return self.folder / "ssh_config"

    def inside(self, words: Sequence[str], folder: Path | None = None) -> list[str]:
        """The words that run a command where the machines can be reached.

        Args:
            words: of the command.
            folder: that it runs in; the root without one, as every name space of mounts begins there.
        """
        config = [f"SLURM_CONF={self.folder}/slurm.conf"] if self.has_slurm else []
        return [*self._enter, "--", "env", f"--chdir={folder or '/'}", *config, *words]

    def on(self, name: str, words: Sequence[str], folder: Path) -> list[str]:
        """The words that run a command on a machine, as somebody does who is there."""
        pid = str(self._inner(name))
        return [
            "nsenter",
            "-t",
            pid,
            "-p",
            "-n",
            "-m",
            "-u",
            "--",
            "env",
            f"--chdir={folder}",
            *words,
        ]

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", "-t", str(self._held[""].pid), "-n", "-m", "-u"]

    def begin(self) -> None:
        """Make the bridge, and the keys."""
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(words, check=True)
        (self.folder / "sshd_config").write_text(_SSHD.format(folder=self.folder))
        self.ssh_config.write_text(_SSH.format(folder=self.folder))
        self._hold(
            "",
            ["unshare", "--uts", "--mount", "--net", "sh", "-c", _HERE.format(folder=self.folder)],
        )
        self._until((self.folder / "ready").exists, "here")  # before, it has our own namespaces
        self._ip(
            "link set lo up",
            "link add br0 type bridge",
            "addr add 10.77.0.1/16 dev br0",
            "link set br0 up",
        )

    def up(self, name: str, type_: str) -> None:
        """Start a machine.

        Args:
            name: ``h1``, ``h2`` and so on.
            type_: of its hardware.
        """
        address = _address(name)
        info = (line.partition(":") for line in open("/proc/cpuinfo").read().splitlines())  # noqa: SIM115, PTH123
        lines = (
            f"{key}: {MODELS[type_]}" if key.strip() == "model name" else f"{key}{colon}{value}"
            for key, colon, value in info
        )
        (self.folder / f"cpu-{name}").write_text("\n".join(lines) + "\n")
        if name not in self.types:
            with self.ssh_config.open("a") as stream:
                stream.write(f"Host {name}\n  HostName {address}\n")
        sshd = find_program("sshd")
        init = self.folder / f"init-{name}"
        before = _SLURMD.format(name=name, folder=self.folder) if self.has_slurm else ""
        init.write_text(_INIT.format(name=name, folder=self.folder, before=before, sshd=sshd))
        self._hold(name, ["unshare", *_SPACES, "sh", str(init)])
        self.types[name] = type_
        pid = self._inner(name)
        # Of a machine that has died, the link may not be gone yet.
        gone = [*self._enter, "ip", "link", "del", name]
        subprocess.run(gone, capture_output=True, check=False)
        self._ip(
            f"link add {name} type veth peer name eth0 netns {pid}",
            f"link set {name} master br0 up",
        )
        there = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip"]
        for words in (f"addr add {address}/16 dev eth0", "link set eth0 up"):
            subprocess.run([*there, *words.split()], check=True)

    def schedule(self, types: Mapping[str, str]) -> None:
        """Start Slurm's controller; the machines that come up from now on are its nodes.

        Args:
            types: of all machines that there will be, by name.
        """
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        (self.folder / "state").mkdir()
        # 22.05 looks for control groups although nothing here uses them, and finds none in a namespace.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        nodes = (
            f"NodeName={name} NodeAddr={_address(name)} CPUs=2 RealMemory=1000 Feature={type_}\n"
            for name, type_ in types.items()
        )
        config = _SLURM.format(folder=self.folder) + "".join(nodes)
        (self.folder / "slurm.conf").write_text(
            f"{config}PartitionName=bench Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE\n"
        )
        self.has_slurm = True
        munge = _MUNGE.format(name="ctl", folder=self.folder)
        self._hold("munged", self.inside(["munged", "--foreground", *shlex.split(munge)]))
        listens = self.inside(["test", "-S", "/run/munge/munge.socket.2"])
        self._until(lambda: subprocess.run(listens, check=False).returncode == 0, "munged")
        config_file = str(self.folder / "slurm.conf")
        self._hold("slurmctld", self.inside(["slurmctld", "-D", "-f", config_file]))

    def await_nodes(self, count: int, limit: float = 60.0) -> None:
        """Wait until so many nodes are idle.

        Raises:
            AssertionError: they are not.
        """
        began = time.monotonic()
        helped = False
        while True:
            words = self.inside(["sinfo", "-N", "-h", "-o", "%N %T"])
            told = subprocess.run(words, capture_output=True, text=True, check=False)
            if told.stdout.count(" idle\n") >= count:
                return
            log = (self.folder / "log-slurmctld").read_text()
            assert time.monotonic() < began + limit, f"{told.stdout}{told.stderr}{log}"
            if time.monotonic() > began + limit / 3 and not helped:
                helped = True
                # Of a machine that is new, Slurm may wait for minutes for the end of what ran on the old one.
                for line in told.stdout.splitlines():
                    name, state = line.split()
                    if state.startswith("completing"):
                        self._set(name, "state=down", "reason=new")
                        self._set(name, "state=resume")
            time.sleep(0.2)

    def _set(self, name: str, *words: str) -> None:
        command = ["scontrol", "update", f"nodename={name}", *words]
        subprocess.run(self.inside(command), check=False)

    def die(self, name: str) -> None:
        """Cut a machine's power: it ends, and not a packet says so."""
        self.mute(name)
        self.crash(name)

    def crash(self, name: str) -> None:
        """End all of a machine's processes; its network says so."""
        held = self._held.pop(name)
        held.kill()
        held.wait()

    def mute(self, name: str) -> None:
        """Lose all that goes to and from a machine, which goes on."""
        self._ip(f"link set {name} down")

    def unmute(self, name: str) -> None:
        """Lose it no longer."""
        self._ip(f"link set {name} up")

    def processes(self, name: str) -> list[str]:
        """The command lines of what runs on a machine."""
        listed = subprocess.run(
            ["nsenter", "-t", str(self._inner(name)), "-p", "-m", "ps", "-e", "-o", "args="],
            capture_output=True,
            text=True,
            check=True,
        )
        return listed.stdout.splitlines()

    def close(self) -> None:
        """End all of them."""
        while self._held:
            self.crash(next(reversed(self._held)))

    def _hold(self, name: str, words: Sequence[str]) -> None:
        log = (self.folder / f"log-{name or 'here'}").open("wb")
        self._held[name] = start_bound(
            words, signal.SIGKILL, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.close()
        self._until(lambda: self._inner(name) != 0, name or "here")

    def _until(self, done: Callable[[], bool], log: str) -> None:
        deadline = time.monotonic() + 10
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError((self.folder / f"log-{log}").read_text())
            time.sleep(0.01)

    def _inner(self, name: str) -> int:
        """The first process inside; 0 if there is none yet."""
        pid = self._held[name].pid
        if not name.startswith("h"):
            return pid
        try:
            children = open(f"/proc/{pid}/task/{pid}/children").read().split()  # noqa: SIM115, PTH123
        except FileNotFoundError:
            return 0
        return int(children[0]) if children else 0

    def _ip(self, *lines: str) -> None:
        for line in lines:
            subprocess.run([*self._enter, "ip", *shlex.split(line)], check=True)


def check_slurm() -> Readiness:
    """Whether Slurm can run on such machines."""
    missing = [name for name in ("slurmctld", "slurmd", "srun", "munged") if not find_program(name)]
    why = f"{', '.join(missing)} not installed"
    return Readiness(
        "Slurm", not missing, why, "apt-get install slurmctld slurmd slurm-client munge"
    )


def _address(name: str) -> str:
    number = int(name[1:])
    return f"10.77.{number // 250 + 1}.{number % 250 + 1}"


@contextmanager
def machines(folder: Path, types: Mapping[str, str], *, slurm: bool = False) -> Iterator[Rig]:
    """Start machines.

    Args:
        folder: for their files; is made.
        types: by name.
        slurm: whether they are nodes of a cluster.
    """
    folder.mkdir(mode=0o700)
    with ExitStack() as stack:
        rig = Rig(folder)
        stack.callback(rig.close)
        rig.begin()
        if slurm:
            rig.schedule(types)
        for name, type_ in types.items():
            rig.up(name, type_)
        if slurm:
            rig.await_nodes(len(types))
        yield rig
