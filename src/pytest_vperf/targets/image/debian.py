"""The image with the tools: a small Debian root file system with every measuring tool, built on this machine.

Container, pod and host run the same files from it, so that a comparison is between targets, not builds of a tool. It
is cached under its content: the packages and versions that apt resolves from the machine's own sources, and our own
programs. Changed package lists are resolved again; the image is rebuilt only if versions changed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.checks import TOOLS
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image import apt as debian_sources
from pytest_vperf.targets.image import debian_build
from pytest_vperf.targets.image.apt import PrivateApt
from pytest_vperf.targets.image.rootfs import Rootfs
from pytest_vperf.targets.image.tar import TarWriter, write_with

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.targets.image.apt import Sources


#: The essential packages. apt counts itself among them but is left out, since nothing is installed later.
BASE = ("?and(?essential,?not(?name(^apt$)))",)
PACKAGES = (
    *("sysbench", "fio", "iperf", "iperf3", "stress-ng"),
    *("procps", "util-linux", "mount", "iproute2", "e2fsprogs"),
    # For whole machines, which boot from the same image: an init, its device manager, and libvirt's guest agent.
    *("systemd-sysv", "udev", "qemu-guest-agent"),
)
#: Left out if the sources lack them.
OPTIONAL = ("usr-is-merged", "netperf")
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
        return cache.content_key([debian_build.LAYOUT, *wanted, "programs of", *programs])


def tools_rootfs(
    extra: Mapping[str, bytes | Path] | None = None,
    *,
    without: Mapping[str, str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Rootfs:
    """The image with the tools; if it is not in the cache it is built, which takes minutes.

    Args:
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
        plan = planned(sources)
        if plan is None or not _base(plan).is_dir():
            if say is not None:
                say("building the image with the tools, once: this takes some minutes")
            plan = _build(sources)
        return _with(plan, extra or {}, without or {})


def planned(sources: Sources) -> Plan | None:
    """The plan that apt resolved from these package lists before; ``None`` if there is none."""
    try:
        return Plan(**json.loads(_plan_file(sources).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def image_size(plan: Plan) -> int | None:
    """The image's size in bytes, without our own programs; ``None`` if it is not in the cache."""
    try:
        return (_base(plan) / "rootfs.tar").stat().st_size
    except OSError:
        return None


def _plan_file(sources: Sources) -> Path:
    wishes = [*BASE, *PACKAGES, *OPTIONAL, *PROGRAMS_ONLY, *PROGRAMS_ONLY.values()]
    key = cache.content_key([debian_build.LAYOUT, *wishes, *sources.lines, *sources.releases])
    return cache.root() / "tools" / f"{key}.json"


def _base(plan: Plan) -> Path:
    return cache.root() / "debian" / plan.key


def _build(sources: Sources) -> Plan:
    """Resolve afresh, and build unless the result is in the cache."""
    ready = debian_build.check()
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
        plan = resolve(apt, sources)
        cache.entry("debian", plan.key, lambda draft: write_base(apt, sources, plan, draft))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    file = _plan_file(sources)
    file.with_suffix(".new").write_text(json.dumps(asdict(plan), indent=1, sort_keys=True))
    file.with_suffix(".new").rename(file)
    return plan


def resolve(apt: PrivateApt, sources: Sources) -> Plan:
    """Resolve the image's content with apt.

    Raises:
        Unavailable: the sources lack a required package.
    """
    known = apt.known([*OPTIONAL, *PROGRAMS_ONLY])
    packages = apt.resolve([*BASE, *PACKAGES, *(name for name in OPTIONAL if name in known)])
    # Resolved alone, since the dependencies of such a package, beyond its programs' libraries, are not wanted.
    programs = {name: apt.resolve([name])[name] for name in PROGRAMS_ONLY if name in known}
    components = ", ".join(debian_sources.COMPONENTS[sources.distribution])
    without = {
        name: f"the machine's package sources do not have it (components {components})"
        for name in (*OPTIONAL, *PROGRAMS_ONLY)
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
        debian_build.build(apt, sources, plan.packages, destination)
        return
    base = folder / "base.tar"
    debian_build.build(apt, sources, plan.packages, base)
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
    parts: list[str | bytes] = [debian_build.LAYOUT, plan.key]
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
NAMES = (NAME, *TOOLS)


def check() -> list[Readiness]:
    """Whether the image is built or can be, then whether it has or would have each tool. Builds nothing."""
    try:
        plan = planned(debian_sources.configured())
    except Unavailable as error:
        image, plan = Readiness(NAME, False, error.reason, error.remedy), None
    else:
        image = _image(plan)
    return [image, *(_tool(name, package, plan, image) for name, package in TOOLS.items())]


def _image(plan: Plan | None) -> Readiness:
    size = image_size(plan) if plan is not None else None
    if plan is not None and size is not None:
        return Readiness(
            NAME, True, f"{plan.name}, {len(plan.packages)} packages, {size / 1e6:.0f} MB, is built"
        )
    builder = debian_build.check()
    if not builder.usable:
        return Readiness(NAME, False, f"it is not built, and {builder.why}", builder.remedy)
    return Readiness(
        NAME, True, "the first test that uses a tool builds it, which takes some minutes"
    )


def _tool(name: str, package: str, plan: Plan | None, image: Readiness) -> Readiness:
    if not image.usable:
        own = find_program(name)
        where = f"; with --vperf-host-tools, the host runs {own}" if own else ""
        return Readiness(name, False, f"the {NAME} is not usable{where}", image.remedy)
    if plan is None:
        maybe = ", where a package source has it" if package in OPTIONAL else ""
        return Readiness(name, True, f"comes with the {NAME}{maybe}")
    if package in plan.packages:
        return Readiness(name, True, f"{plan.packages[package]}, in the {NAME}")
    reason = plan.without.get(package, "it is not there")
    remedy = "add a package source that has it to apt's, and run apt-get update"
    return Readiness(name, False, f"the {NAME} has none: {reason}", remedy)
