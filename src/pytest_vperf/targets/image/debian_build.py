"""Building a Debian root file system with mmdebstrap, from packages already fetched."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.ending import at_parents_death
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image.tar import TarWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_vperf.targets.image.apt import PrivateApt, Sources

#: The layout of the image with the tools; changed whenever `TOOLS` changes.
LAYOUT = "debian rootfs 1"

_TIMEOUT = 1800.0
_NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
# subuid(5), subgid(5)
_SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
#: A fixed date, since some packages write the day of their installation, e.g. into /etc/shadow.
_EPOCH = "1672531200"


@dataclass(frozen=True)
class Layout:
    """How an installed tree is changed.

    Attributes:
        name: changed with the other attributes, so that an older tree in the cache is not used instead.
        left_out: matches the names of files that are left out.
        unread: patterns of files that dpkg need not write, because they are left out or never read.
        folders: added if missing, with their permissions.
        files: added, or replacing installed ones.
    """

    name: str
    left_out: re.Pattern[str]
    unread: tuple[str, ...] = tuple(
        f"/usr/share/{name}/*" for name in ("doc", "man", "locale", "info", "lintian", "bug")
    )
    folders: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


#: The image with the tools. Left out: documentation; files for packaging only; files that differ between builds; and
#: Python, a dependency only of some packages' scripts, none of them a tool used here.
TOOLS = Layout(
    LAYOUT,
    re.compile(
        r"(dev|proc|sys|run|tmp|boot|media|mnt|home|srv"
        r"|etc/(apt|machine-id|hostname|resolv\.conf|hosts|\.pwd\.lock)"
        r"|usr/share/(doc|man|locale|info|lintian|bug|bash-completion|X11|python3|doc-base|applications|pixmaps)"
        r"|usr/lib/python3[^/]*|usr/bin/(python3|py3|pydoc)[^/]*"
        r"|var/(cache|log|tmp|backups)|var/lib/(apt|dbus)"
        r"|var/lib/dpkg/(info|lock[^/]*|triggers|available|[^/]*-old))(/|$)"
    ),
    folders={
        **dict.fromkeys(["dev", "proc", "sys", "run", "mnt", "var/cache", "var/log"], 0o755),
        **dict.fromkeys(["tmp", "var/tmp"], 0o1777),
    },
    files={
        "etc/hosts": b"127.0.0.1 localhost\n::1 localhost\n",
        "etc/resolv.conf": b"",
        "etc/hostname": b"localhost\n",
    },
)


def check() -> Readiness:
    """Whether this user can build a root file system here, as far as can be checked without building."""
    name = "mmdebstrap"
    path = find_program(name)
    if path is None:
        return Readiness(name, False, "mmdebstrap is not installed", "apt-get install mmdebstrap")
    if os.geteuid() == 0:
        return Readiness(name, True, path)
    if find_program("newuidmap") is None:
        why = "an ordinary user needs newuidmap to build an image"
        return Readiness(name, False, why, "apt-get install uidmap, or build it once as root")
    if not all(_has_subordinates(file) for file in _SUBORDINATE):
        why = "this user has no subordinate user and group IDs, which building an image needs"
        remedy = "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER, as root"
        return Readiness(name, False, why, remedy)
    for setting in ("kernel/unprivileged_userns_clone", "user/max_user_namespaces"):
        file = Path("/proc/sys") / setting
        if file.is_file() and file.read_text().strip() == "0":
            key = setting.replace("/", ".")
            why = f"user namespaces, which building an image needs, are switched off ({key} is 0)"
            return Readiness(name, False, why, f"sysctl {key}=1, as root")
    return Readiness(name, True, path)


def _has_subordinates(file: Path) -> bool:
    import pwd

    mine = {pwd.getpwuid(os.getuid()).pw_name, str(os.getuid())}
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return False
    return any(line.split(":")[0] in mine for line in lines)


def build(
    apt: PrivateApt,
    sources: Sources,
    packages: Mapping[str, str],
    tar: Path,
    layout: Layout = TOOLS,
) -> None:
    """Install packages into a new tree, and write it as a tar file: equal packages, equal bytes.

    Args:
        apt: has fetched the packages.
        sources: where they are from.
        packages: all of them, with their versions.
        tar: the file to write.
        layout: what is left out and added.

    Raises:
        Unavailable: mmdebstrap is missing, or failed; with its message.
    """
    ready = check()
    if not ready.usable:
        raise Unavailable(ready.why, remedy=ready.remedy)
    raw = tar.with_name("mmdebstrap.tar")
    exact = ",".join(f"{name}={version}" for name, version in packages.items())
    command = [
        ready.why,
        f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
        "--variant=essential",
        "--quiet",
        # Lists and packages are copied in: nothing is fetched, and nothing newer is used.
        "--skip=update,cleanup/apt",
        '--setup-hook=mkdir -p "$1/var/lib/apt/lists" "$1/var/cache/apt/archives"',
        f"--setup-hook=sync-in {shlex.quote(str(apt.lists))} /var/lib/apt/lists",
        f"--setup-hook=sync-in {shlex.quote(str(apt.archives))} /var/cache/apt/archives",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in layout.unread),
        f"--include={exact}",
        sources.codename,
        str(raw),
        str(apt.sources),
    ]
    hooks = Path("/usr/share/mmdebstrap/hooks/merged-usr")
    if hooks.is_dir():
        command.insert(1, f"--hook-dir={hooks}")
    _run(command, apt.folder)
    try:
        with TarWriter(tar) as archive:
            archive.copy(
                raw, lambda name: not layout.left_out.match(name) and name not in layout.files
            )
            for name, mode in layout.folders.items():
                archive.folder(name, mode)
            for name, content in layout.files.items():
                archive.file(name, content)
        installed = _installed(tar)
    finally:
        raw.unlink()
    if installed != dict(packages):
        differing = sorted(set(installed.items()) ^ set(packages.items()))
        names = ", ".join(dict.fromkeys(name for name, _ in differing))
        raise Unavailable(f"mmdebstrap installed other packages than apt resolved: {names}")


def _run(command: list[str], folder: Path) -> None:
    """Run mmdebstrap so that nothing of it outlives this process, however that ends.

    Run by root it has its own namespaces, which end with their first process and take its mounts with them; its tree
    is in ``folder``. An ordinary user's tree belongs to subordinate users, so mmdebstrap is sent SIGTERM to remove it
    itself.
    """
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _EPOCH, "LC_ALL": "C.UTF-8"}
    # dpkg refuses to work without the sbin folders in PATH, as after `su` without "-".
    environment["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    alone = _NAMESPACES if os.geteuid() == 0 and _can_be_alone() else []
    end = signal.SIGKILL if alone else signal.SIGTERM
    if os.geteuid() == 0:
        environment["TMPDIR"] = str(folder)
    process = subprocess.Popen(
        [*alone, *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=at_parents_death(end),
    )
    try:
        _, said = process.communicate(timeout=_TIMEOUT)
    except BaseException as error:
        os.killpg(process.pid, end)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        if isinstance(error, subprocess.TimeoutExpired):
            raise Unavailable(f"mmdebstrap did not end within {_TIMEOUT:g} s") from error
        raise
    if process.returncode:
        lines = [line for line in said.splitlines() if line.startswith("E: ")] or said.splitlines()
        raise Unavailable(f"mmdebstrap failed: {' '.join(lines[:4])[:400] or 'it said nothing'}")


def _can_be_alone() -> bool:
    """Whether root may create namespaces, which in a container is not certain."""
    try:
        done = subprocess.run([*_NAMESPACES, "true"], capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _installed(tar: Path) -> dict[str, str]:
    """Package → version, as recorded by dpkg in the image."""
    import tarfile

    with tarfile.open(tar, "r:") as archive:
        stream = archive.extractfile("var/lib/dpkg/status")
        text = stream.read().decode() if stream else ""
    return dict(sorted(_stanzas(text)))


def _stanzas(text: str) -> Iterator[tuple[str, str]]:
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            yield fields["Package"], fields["Version"]
