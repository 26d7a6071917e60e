"""The image with the tools: a small Debian root file system with every measuring tool, built on this machine.

Container, pod and host run the same files from it, so that a comparison is between targets, not builds of a tool. It
is cached under its content: the packages and versions that apt resolves from the machine's own sources, and our own
programs. Changed package lists are resolved again; the image is rebuilt only if versions changed. mmdebstrap builds
it from packages already fetched.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.ending import at_parents_death
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image import apt as debian_sources
from pytest_vperf.targets.image.apt import PrivateApt
from pytest_vperf.targets.image.rootfs import Rootfs
from pytest_vperf.targets.image.tar import TarWriter, write_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_vperf.targets.image.apt import Sources


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


def can_build() -> Readiness:
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
    ready = can_build()
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


#: The essential packages. apt counts itself among them but is left out, since nothing is installed later.
BASE = ("?and(?essential,?not(?name(^apt$)))",)
PACKAGES = (
    *("procps", "util-linux", "mount", "iproute2", "e2fsprogs"),
    # For whole machines, which boot from the same image: an init, its device manager, and libvirt's guest agent.
    *("systemd-sysv", "udev", "qemu-guest-agent"),
)
#: Left out if the sources lack them.
OPTIONAL = ("usr-is-merged",)
#: Only the programs of these packages are used, in the package's own folder: the package depends on a compiler.
PROGRAMS_ONLY = {"lmbench": "usr/lib/lmbench/bin"}


@dataclass(frozen=True)
class Plan:
    """The content of the image, as resolved by apt.

    Attributes:
        name: the image's, for messages.
        packages: with their versions.
        programs: packages of which only the programs are used, with their versions.
        without: tools that are unavailable, each with the reason.
    """

    name: str
    packages: Mapping[str, str]
    programs: Mapping[str, str]
    without: Mapping[str, str]

    @property
    def key(self) -> str:
        """The image's content key, without our own programs."""
        wanted = [f"{name}={version}" for name, version in sorted(self.packages.items())]
        programs = [f"{name}={version}" for name, version in sorted(self.programs.items())]
        return cache.content_key([LAYOUT, *wanted, "programs of", *programs])


def tools_rootfs(
    tools: Sequence[str],
    extra: Mapping[str, bytes | Path] | None = None,
    *,
    without: Mapping[str, str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Rootfs:
    """The image with the tools; if it is not in the cache it is built, which takes minutes.

    Args:
        tools: packages of the tools; those that the machine's package sources lack are left out.
        extra: programs to add, by their path in the image.
        without: programs that would be added but are unavailable, each with the reason.
        say: called with a message before a long build.

    Raises:
        Unavailable: it cannot be built here; with what is missing and a remedy.
    """
    from filelock import FileLock

    sources = debian_sources.configured()
    folder = cache.root() / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        plan = planned(sources, tools)
        if plan is None or not _base(plan).is_dir():
            if say is not None:
                say("building the image with the tools, once: this takes some minutes")
            plan = _build(sources, tools)
        return _with(plan, extra or {}, without or {})


def planned(sources: Sources, tools: Sequence[str] | None = None) -> Plan | None:
    """The plan that apt resolved from these package lists before; ``None`` if there is none.

    Args:
        sources: of packages.
        tools: packages of the tools; ``None``: any.
    """
    folder = cache.root() / "tools"
    files = folder.glob(f"{_of(sources)}-*.json") if tools is None else [_plan_file(sources, tools)]
    for file in files:
        with contextlib.suppress(OSError, ValueError, TypeError):
            return Plan(**json.loads(file.read_text()))
    return None


def image_size(plan: Plan) -> int | None:
    """The image's size in bytes, without our own programs; ``None`` if it is not in the cache."""
    try:
        return (_base(plan) / "rootfs.tar").stat().st_size
    except OSError:
        return None


def _of(sources: Sources) -> str:
    return cache.content_key([LAYOUT, *sources.lines, *sources.releases])[:32]


def _plan_file(sources: Sources, tools: Sequence[str]) -> Path:
    wishes = [*BASE, *PACKAGES, *OPTIONAL, *PROGRAMS_ONLY, *PROGRAMS_ONLY.values()]
    key = cache.content_key([*wishes, "tools", *sorted(tools)])[:32]
    return cache.root() / "tools" / f"{_of(sources)}-{key}.json"


def _base(plan: Plan) -> Path:
    return cache.root() / "debian" / plan.key


def _build(sources: Sources, tools: Sequence[str]) -> Plan:
    """Resolve afresh, and build unless the result is in the cache."""
    ready = can_build()
    if not ready.usable:
        raise Unavailable(ready.why, remedy=ready.remedy)
    # We hold the lock, so anything found here was left by a killed build.
    work = cache.root() / "tools" / "work"
    for left in (work, *(cache.root() / "debian").glob(".*-*")):
        shutil.rmtree(left, ignore_errors=True)
    work.mkdir()
    try:
        apt = PrivateApt(work, sources.lines, sources.lists)
        apt.update()
        plan = resolve(apt, sources, tools)
        cache.entry("debian", plan.key, lambda draft: write_base(apt, sources, plan, draft))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    file = _plan_file(sources, tools)
    file.with_suffix(".new").write_text(json.dumps(asdict(plan), indent=1, sort_keys=True))
    file.with_suffix(".new").rename(file)
    return plan


def resolve(apt: PrivateApt, sources: Sources, tools: Sequence[str]) -> Plan:
    """Resolve the image's content with apt.

    Args:
        apt: with these sources.
        sources: of packages.
        tools: packages of the tools.

    Raises:
        Unavailable: the sources lack a required package.
    """
    optional = (*OPTIONAL, *tools)
    known = apt.known([*optional, *PROGRAMS_ONLY])
    packages = apt.resolve([*BASE, *PACKAGES, *(name for name in optional if name in known)])
    # Resolved alone, since the dependencies of such a package, beyond its programs' libraries, are not wanted.
    programs = {name: apt.resolve([name])[name] for name in PROGRAMS_ONLY if name in known}
    components = ", ".join(debian_sources.COMPONENTS[sources.distribution])
    without = {
        name: f"the machine's package sources do not have it (components {components})"
        for name in (*optional, *PROGRAMS_ONLY)
        if name not in known and name != "usr-is-merged"
    }
    name = f"{sources.distribution} {sources.codename} with tools"
    return Plan(name, packages, programs, without)


def write_base(apt: PrivateApt, sources: Sources, plan: Plan, folder: Path) -> None:
    """Build the tree of a plan as ``rootfs.tar`` in a folder; equal plans give equal bytes.

    Raises:
        Unavailable: the packages cannot be fetched or installed.
    """
    apt.download(plan.packages)
    destination = folder / "rootfs.tar"
    if not plan.programs:
        build(apt, sources, plan.packages, destination)
        return
    base = folder / "base.tar"
    build(apt, sources, plan.packages, base)
    with TarWriter(destination) as archive:
        archive.copy(base)
        for name in plan.programs:
            _add_programs(apt.fetch(name), PROGRAMS_ONLY[name], archive, folder)
    base.unlink()


def _add_programs(package: Path, within: str, archive: TarWriter, folder: Path) -> None:
    unpacked = folder / "package.tar"
    with unpacked.open("wb") as stream:
        try:
            subprocess.run(
                ["dpkg-deb", "--fsys-tarfile", str(package)], stdout=stream, check=True, timeout=120
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"{package.name} cannot be unpacked: {error}") from error
    archive.folder(within)
    archive.copy(unpacked, lambda name: name.startswith(f"{within}/"))
    unpacked.unlink()


def _with(plan: Plan, extra: Mapping[str, bytes | Path], without: Mapping[str, str]) -> Rootfs:
    base = _base(plan) / "rootfs.tar"
    contents = {
        path: content if isinstance(content, bytes) else content.read_bytes()
        for path, content in sorted(extra.items())
    }
    parts: list[str | bytes] = [LAYOUT, plan.key]
    for path, content in contents.items():
        parts += [path, content]

    def build(draft: Path) -> None:
        write_with(base, contents, draft / "rootfs.tar")
        (draft / "sha256").write_text(cache.file_sha256(draft / "rootfs.tar"))

    folder = cache.entry("rootfs", cache.content_key(parts), build)
    return Rootfs(
        folder / "rootfs.tar",
        (folder / "sha256").read_text(),
        plan.name,
        tuple(sorted({**plan.without, **without}.items())),
    )


NAME = "tools image"


def check(tools: Sequence[str] | None = None) -> list[Readiness]:
    """Whether the image is built or can be, then whether it has or would have each tool. Builds nothing.

    Args:
        tools: packages of the tools; ``None``: of any image with tools.
    """
    try:
        plan = planned(debian_sources.configured(), tools)
    except Unavailable as error:
        image, plan = Readiness(NAME, False, error.reason, error.remedy), None
    else:
        image = _image(plan)
    return [image, *(_tool(package, plan, image) for package in tools or ())]


def _image(plan: Plan | None) -> Readiness:
    size = image_size(plan) if plan is not None else None
    if plan is not None and size is not None:
        return Readiness(
            NAME, True, f"{plan.name}, {len(plan.packages)} packages, {size / 1e6:.0f} MB, is built"
        )
    builder = can_build()
    if not builder.usable:
        return Readiness(NAME, False, f"it is not built, and {builder.why}", builder.remedy)
    return Readiness(
        NAME, True, "the first test that uses a tool builds it, which takes some minutes"
    )


def _tool(name: str, plan: Plan | None, image: Readiness) -> Readiness:
    if not image.usable:
        own = find_program(name)
        where = f"; with --vperf-host-tools, the host runs {own}" if own else ""
        return Readiness(name, False, f"the {NAME} is not usable{where}", image.remedy)
    if plan is None:
        return Readiness(name, True, f"comes with the {NAME}, where a package source has it")
    if name in plan.packages:
        return Readiness(name, True, f"{plan.packages[name]}, in the {NAME}")
    reason = plan.without.get(name, "it is not there")
    remedy = "add a package source that has it to apt's, and run apt-get update"
    return Readiness(name, False, f"the {NAME} has none: {reason}", remedy)
