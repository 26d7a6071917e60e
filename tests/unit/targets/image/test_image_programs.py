"""Programs of an image: where they are, their bytes, and running them on the host without the host's files."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import compiler
from pytest_vperf.machine.cache import file_sha256
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.image import busybox
from pytest_vperf.targets.image.elf import read_elf
from pytest_vperf.targets.image.programs import ImagePrograms, library_folders
from pytest_vperf.targets.image.rootfs import Rootfs
from pytest_vperf.targets.image.tar import TarWriter, Tree, write_with
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def image(tmp_path: Path) -> Callable[..., Rootfs]:
    """Makes an image of executable files and links (a text that begins with ``->``)."""

    def make(files: Mapping[str, bytes | str], without: tuple[tuple[str, str], ...] = ()) -> Rootfs:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.tar"
        with tarfile.open(path, "w") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.mode = 0o755
                data = content if isinstance(content, bytes) else b""
                entry.size = len(data)
                if isinstance(content, str):
                    entry.type, entry.linkname = tarfile.SYMTYPE, content.removeprefix("->")
                archive.addfile(entry, io.BytesIO(data))
        return Rootfs(path, file_sha256(path), "mine", without)

    return make


def libraries(program: Path) -> dict[str, bytes | str]:
    """The loader of a program of this machine at its usual path, and its libraries in another folder."""
    elf = read_elf(program.read_bytes())
    assert elf is not None
    files: dict[str, bytes | str] = {}
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        if " => " in line:
            place = Path(line.split(" => ")[1].split(" (")[0])
            files[f"opt/libs/{place.name}"] = place.read_bytes()
    files[elf.interpreter.lstrip("/")] = Path(elf.interpreter).read_bytes()
    return files


def test_a_program_is_found_as_a_shell_finds_it(image: Callable[..., Rootfs]) -> None:
    files = {
        "usr/bin/mawk": b"#!m",
        "usr/bin/awk": "->/etc/alternatives/awk",
        "etc/alternatives/awk": "->/usr/bin/mawk",
        "usr/local/bin/fio": b"newer",
        "usr/bin/fio": b"older",
        "opt/own": b"own",
    }
    programs = ImagePrograms(image(files))
    awk = programs.find("awk")
    assert (awk.name, awk.argv, awk.path) == ("awk", ("/usr/bin/awk",), "/usr/bin/awk")
    assert awk.sha256 == hashlib.sha256(b"#!m").hexdigest()
    assert awk.origin == "image"
    assert programs.find("fio").path == "/usr/local/bin/fio"
    assert programs.find("/opt/own").argv == ("/opt/own",)


def test_a_missing_program_is_reported_with_the_image(image: Callable[..., Rootfs]) -> None:
    rootfs = image({"bin/dir/x": b""}, (("netperf", "no source has it"),))
    programs = ImagePrograms(rootfs)
    with pytest.raises(Unavailable) as caught:
        programs.find("fio")
    assert caught.value.reason == "the image mine has no fio"
    assert "--container-image" in caught.value.remedy
    with pytest.raises(Unavailable) as caught:
        programs.find("netperf")
    assert str(caught.value) == "the image mine has no netperf: no source has it"
    with pytest.raises(Unavailable, match="the image mine has no dir"):
        programs.find("dir")


def test_the_host_runs_it_with_the_image_s_libraries_only(image: Callable[..., Rootfs]) -> None:
    cat = Path(shutil.which("cat") or "").resolve()
    files = {
        "usr/bin/cat": cat.read_bytes(),
        "bin": "->usr/bin",
        "etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n",
        "etc/ld.so.conf.d/opt.conf": b"# ours\n/opt/libs\n",
        **libraries(cat),
    }
    rootfs = image(files)
    host, scope = Host(None, lambda: rootfs), Scope()
    scope.own(host)
    program = host.program("cat")
    assert program.path == "/usr/bin/cat"
    assert program.sha256 == file_sha256(cat) == ImagePrograms(rootfs).find("cat").sha256
    maps = host.run([*program.argv, "/proc/self/maps"]).text
    used = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    assert used
    assert all("/cache/tree/" in path for path in used)
    # Its own path is the one in the image.
    done = host.run([*program.argv, "/no/such"], check=False)
    assert done.stderr.startswith(b"/usr/bin/cat: ")
    # From now on the record has the image.
    assert "rootfs" not in scope.facts[0].details
    scope.note_tool("host", program, "9.1")
    (facts,) = scope.facts
    assert (facts.details["rootfs"], facts.details["rootfs_sha256"]) == ("mine", rootfs.sha256)


def test_a_library_of_the_host_s_is_not_taken(image: Callable[..., Rootfs]) -> None:
    cat = Path(shutil.which("cat") or "").resolve()
    rootfs = image(
        {"usr/bin/cat": cat.read_bytes(), **libraries(cat)}
    )  # no configuration names /opt/libs
    with pytest.raises(Unavailable) as caught:
        ImagePrograms(rootfs).in_place("cat")
    assert caught.value.reason == (
        "the host cannot run /usr/bin/cat of the image mine: "
        "libc.so.6 is not where the image's loader looks for it"
    )
    assert "--vperf-host-tools" in caught.value.remedy


def test_libraries_may_name_further_library_folders(
    image: Callable[..., Rootfs], tmp_path: Path
) -> None:
    """As with fio: librados names its own folder, which does not exist on the host."""
    if not compiler.check().usable:
        pytest.skip(compiler.check().why)

    def build(name: str, code: str, *words: str) -> bytes:
        (tmp_path / f"{name}.c").write_text(code)
        command = ["cc", "-o", str(tmp_path / name), str(tmp_path / f"{name}.c"), *words]
        subprocess.run(command, check=True, cwd=tmp_path)
        return (tmp_path / name).read_bytes()

    far = "/usr/lib/vperf-far"
    shared = ("-shared", "-fPIC", "-L.", "-Wl,--enable-new-dtags")
    deepest = build("libdeepest.so", "int deepest(void) { return 7; }", *shared)
    deep = build(
        *("libdeep.so", "int deepest(void); int deep(void) { return deepest(); }"),
        *(*shared, "-ldeepest", f"-Wl,-rpath,{far}/deepest"),
    )
    near = build(
        *("libnear.so", "int deep(void); int near_by(void) { return deep(); }"),
        *(*shared, "-ldeep", f"-Wl,-rpath,{far}", "-Wl,--allow-shlib-undefined"),
    )
    seven = build(
        *("seven", "int near_by(void); int main(void) { return near_by(); }"),
        *("-L.", "-lnear", "-Wl,--allow-shlib-undefined"),
    )
    files = {
        "usr/bin/seven": seven,
        "opt/libs/libnear.so": near,
        f"{far[1:]}/libdeep.so": deep,
        f"{far[1:]}/deepest/libdeepest.so": deepest,
        "etc/ld.so.conf": b"/opt/libs\n",
    }
    rootfs = image({**files, **libraries(Path(shutil.which("cat") or "").resolve())})
    program = ImagePrograms(rootfs).in_place("seven")
    assert subprocess.run(program.argv, check=False).returncode == 7
    del files[f"{far[1:]}/deepest/libdeepest.so"]
    rootfs = image({**files, **libraries(Path(shutil.which("cat") or "").resolve())})
    with pytest.raises(Unavailable) as caught:
        ImagePrograms(rootfs).in_place("seven")
    assert caught.value.reason.endswith(
        ": libdeepest.so is not where the image's loader looks for it"
    )
    assert caught.value.target == "host"


#: Where the loader of an image finds the libraries that `libraries` puts there.
CONFIGURED = {"etc/ld.so.conf": b"/opt/libs\n"}


def copied(programs: ImagePrograms, name: str, folder: Path) -> list[str]:
    """The command of a program whose files, and nothing else of the image, were copied to a folder."""
    for path, file in programs.files(name).items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read_bytes())
        place.chmod(0o755)
    return list(programs.in_place(name, str(folder)).argv)


def test_the_files_of_a_program_are_all_that_it_needs(
    image: Callable[..., Rootfs], tmp_path: Path
) -> None:
    cat = Path(shutil.which("cat") or "").resolve()
    rootfs = image({"bin/cat": cat.read_bytes(), "bin/more": b"", **CONFIGURED, **libraries(cat)})
    command = copied(ImagePrograms(rootfs), "cat", tmp_path / "far")
    assert {each.name for each in (tmp_path / "far").rglob("*") if each.is_file()} >= {"cat"}
    assert not (tmp_path / "far/bin/more").exists()
    done = subprocess.run(command, input=b"a\n", capture_output=True, check=True)
    assert done.stdout == b"a\n"
    assert all(word.startswith(("-", "/bin/", str(tmp_path))) for word in command)


def test_a_link_is_brought_as_what_it_names(image: Callable[..., Rootfs], tmp_path: Path) -> None:
    found = [path for path in (Path("/bin/busybox"), Path("/usr/bin/busybox")) if path.is_file()]
    if not found or not busybox.is_static(found[0]):
        pytest.skip("no static busybox is installed (to mend it: apt-get install busybox-static)")
    rootfs = image({"bin/own": found[0].read_bytes(), "bin/echo": "->/bin/own"})
    command = copied(ImagePrograms(rootfs), "echo", tmp_path / "far")
    assert subprocess.run([*command, "a"], capture_output=True, check=True).stdout == b"a\n"


def test_a_library_outside_the_image_is_not_brought(
    image: Callable[..., Rootfs], tmp_path: Path
) -> None:
    """A link in an image of a stranger's would be a file of this machine on the other one."""
    cat = Path(shutil.which("cat") or "").resolve()
    programs = ImagePrograms(image({"bin/cat": cat.read_bytes(), **CONFIGURED, **libraries(cat)}))
    programs.in_place("cat")
    (stolen,) = [file for path, file in programs.files("cat").items() if "libc.so" in path]
    stolen.rename(tmp_path / "outside")
    stolen.symlink_to(tmp_path / "outside")
    with pytest.raises(Unavailable, match=r"libc\.so\S* leads out of the image"):
        programs.files("cat")


def test_programs_that_the_host_cannot_run(image: Callable[..., Rootfs]) -> None:
    cat = Path(shutil.which("cat") or "").resolve().read_bytes()
    foreign = bytearray(cat)
    foreign[18:20] = (183).to_bytes(2, "little")
    rootfs = image({"bin/cat": cat, "bin/arm": bytes(foreign), "bin/script": b"#!/bin/sh\n"})
    elf = read_elf(cat)
    assert elf is not None
    for name, why in {
        "cat": f"its loader {elf.interpreter} is not in the image",
        "arm": "it is a program for aarch64",
        "script": "it is a script, whose interpreter has another path here",
    }.items():
        with pytest.raises(Unavailable) as caught:
            ImagePrograms(rootfs).in_place(name)
        assert caught.value.reason == f"the host cannot run /bin/{name} of the image mine: {why}"


def test_a_static_program_is_run_from_the_unpacked_image(
    image: Callable[..., Rootfs],
) -> None:
    found = [path for path in (Path("/bin/busybox"), Path("/usr/bin/busybox")) if path.is_file()]
    if not found or not busybox.is_static(found[0]):
        pytest.skip("no static busybox is installed (to mend it: apt-get install busybox-static)")
    rootfs = image({"bin/busybox": found[0].read_bytes(), "bin/echo": "->/bin/busybox"})
    program = ImagePrograms(rootfs).in_place("echo")
    assert program.sha256 == file_sha256(found[0])
    with Host(None, lambda: rootfs) as host:
        assert host.run([*program.argv, "a", "b"]).text == "a b\n"


def test_the_host_s_own_tools_only_where_they_are_asked_for(
    image: Callable[..., Rootfs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin/mytool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    rootfs = image({"bin/x": b""})
    with Host(None, lambda: rootfs) as host, pytest.raises(Unavailable, match="has no mytool"):
        host.program("mytool")
    with Host(None, lambda: rootfs, tools="host") as host:
        program = host.program("mytool")
        assert (program.argv, program.origin) == ((str(tool),), "host")
        assert program.sha256 == file_sha256(tool)
        assert "rootfs" not in host.facts().details
        with pytest.raises(Unavailable) as caught:
            host.program("no-such-tool")
    assert caught.value.reason == (
        "no-such-tool is not installed on the host, whose own tools were asked for"
    )
    assert caught.value.target == "host"


def test_library_folders_are_in_the_loaders_order(image: Callable[..., Rootfs]) -> None:
    files = {
        "etc/ld.so.conf": b"/opt/first # comment\ninclude ld.so.conf.d/*.conf\n",
        "etc/ld.so.conf.d/b.conf": b"/opt/second\ninclude /etc/ld.so.conf\n",
        "etc/ld.so.conf.d/c.txt": b"/opt/third\n",
        "opt/first/liba.so": b"",
        "opt/second/libb.so": b"",
        "opt/third/libc.so": b"",
        "lib": "->usr/lib",
        "usr/lib/x86_64-linux-gnu/libc.so": b"",
    }
    assert library_folders(Tree(image(files).path)) == [
        "opt/first",
        "opt/second",
        "usr/lib/x86_64-linux-gnu",
        "usr/lib",
    ]


def test_programs_are_added_to_an_image_reproducibly(tmp_path: Path) -> None:
    with TarWriter(tmp_path / "base.tar") as archive:
        archive.folder("tmp", 0o1777)
        archive.file("usr/local/bin/old", b"1", 0o755)
    extra = {"/usr/local/bin/b": b"b", "/usr/local/bin/a": b"a", "/usr/local/bin/old": b"2"}
    for copy in ("one.tar", "two.tar"):
        write_with(tmp_path / "base.tar", extra, tmp_path / copy)
    assert file_sha256(tmp_path / "one.tar") == file_sha256(tmp_path / "two.tar")
    tree = Tree(tmp_path / "one.tar")
    assert tree.names("/usr/local/bin") == ["a", "b", "old"]
    assert tree.read("/usr/local/bin/old") == b"2"
    entry = tree.entry("/tmp")
    assert entry is not None
    assert entry.mode == 0o1777


def test_a_copied_tar_file_drops_devices_dates_and_user_names(tmp_path: Path) -> None:
    source = tmp_path / "source.tar"
    with tarfile.open(source, "w") as archive:
        for name, kind in {
            "./": tarfile.DIRTYPE,
            "./null": tarfile.CHRTYPE,
            "./a": tarfile.REGTYPE,
        }.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.mtime, entry.uname, entry.uid = kind, 12345, "me", 7
            archive.addfile(entry, io.BytesIO())
        link = tarfile.TarInfo("./b")
        link.type, link.linkname = tarfile.LNKTYPE, "./a"
        archive.addfile(link)
    with TarWriter(tmp_path / "out.tar") as out:
        out.copy(source, lambda name: name != "c")
    with tarfile.open(tmp_path / "out.tar") as archive:
        seen = [(m.name, m.mtime, m.uname, m.uid, m.linkname) for m in archive]
    assert seen == [("a", 0, "", 7, ""), ("b", 0, "", 0, "a")]
