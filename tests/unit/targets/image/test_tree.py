"""The tree of an image: paths resolve as in a root directory, and unpacking writes nothing outside."""

from __future__ import annotations

import io
import os
import posixpath
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.image.tar import Tree, unpacked

Member = tuple[bytes, str, str, int]
FILE, FOLDER, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def write_tar(path: Path, members: list[Member]) -> Path:
    """Members as kind, name, link or content, and mode."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for kind, name, text, mode in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kind, mode
            data = text.encode() if kind == FILE else b""
            entry.size = len(data)
            entry.linkname = text if kind in (LINK, HARD) else ""
            archive.addfile(entry, io.BytesIO(data))
    return path


def tree(folder: Path, *members: Member) -> Tree:
    return Tree(write_tar(folder / "image.tar", list(members)))


def test_paths_are_followed_as_in_a_root(tmp_path: Path) -> None:
    image = tree(
        tmp_path,
        (LINK, "bin", "usr/bin", 0o777),
        (FOLDER, "usr/bin", "", 0o755),
        (FILE, "usr/bin/mawk", "program", 0o755),
        (LINK, "usr/bin/awk", "/etc/alternatives/awk", 0o777),
        (LINK, "etc/alternatives/awk", "/usr/bin/mawk", 0o777),
        (LINK, "up", "../../../../usr", 0o777),
        (LINK, "loop", "loop", 0o777),
        (LINK, "gone", "/no/such", 0o777),
        (HARD, "usr/bin/nawk", "usr/bin/mawk", 0),
        (FILE, "./bin/sed", "through a link", 0o644),
    )
    assert image.resolve("/bin/awk") == "usr/bin/mawk"
    assert image.resolve("/bin/awk", follow=False) == "usr/bin/awk"
    assert image.resolve("/up/../up/bin/../bin/nawk") == "usr/bin/nawk"
    assert image.resolve("/bin/sed") == "usr/bin/sed"
    assert [image.resolve(path) for path in ("/loop", "/gone", "/bin/awk/x", "/none")] == [None] * 4
    assert image.read("/usr/bin/nawk") == b"program"
    assert image.names("/bin") == ["awk", "mawk", "nawk", "sed"]
    assert image.names("/none") == []
    entry = image.entry("/bin/awk")
    assert entry is not None
    assert (entry.kind, entry.mode) == ("file", 0o755)
    with pytest.raises(FileNotFoundError, match=r"has no file /bin$"):
        image.read("/bin")


def test_unpacked_links_lead_to_the_same_place_inside(tmp_path: Path) -> None:
    image = tree(
        tmp_path,
        (LINK, "bin", "/usr/bin", 0o777),
        (FILE, "usr/bin/busybox", "b", 0o4755),
        (LINK, "usr/bin/sh", "/bin/busybox", 0o777),
        (LINK, "out", "../../../etc/passwd", 0o777),
        (LINK, "a/b/secret", "/etc/shadow", 0o777),
    )
    root = tmp_path / "root"
    root.mkdir()
    image.unpack(root)
    assert (root / "bin/sh").resolve() == root / "usr/bin/busybox"
    # It runs, and gives nobody more privileges.
    assert stat.S_IMODE((root / "usr/bin/busybox").stat().st_mode) == 0o755
    for name in ("out", "a/b/secret"):
        assert (root / name).is_symlink()
        assert not (root / name).exists()


def test_hostile_archives_are_refused(tmp_path: Path) -> None:
    cases: dict[str, list[Member]] = {
        r"has a member with \.\. in its name: 'usr/\.\./\.\./etc/x'$": [
            (FILE, "usr/../../etc/x", "", 0o644)
        ],
        r"has 'a/b' below something that is not a folder$": [
            (FILE, "a", "", 0o644),
            (FILE, "a/b", "", 0o644),
        ],
        r"has 'l/b' below something that is not a folder$": [
            (LINK, "l", "/nowhere", 0o777),
            (FILE, "l/b", "", 0o644),
        ],
        r"has 'a' twice, once as a folder$": [(FOLDER, "a", "", 0o755), (LINK, "a", "/etc", 0o777)],
        r"has 'h' as a hard link to '/etc/passwd', which does not precede it$": [
            (HARD, "h", "/etc/passwd", 0)
        ],
    }
    for message, members in cases.items():
        with pytest.raises(CannotStart, match=message):
            tree(tmp_path, *members)


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", [(FILE, "a", "x" * 2000, 0o644)])
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(CannotStart, match=r"x\.tar is not a whole tar archive: "):
        Tree(path)


def test_an_image_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))
    image = tree(tmp_path, (FILE, "bin/x", "1", 0o755))
    first = unpacked(image, "a" * 64)
    (first / "mark").touch()
    assert unpacked(image, "a" * 64) == first
    assert (first / "mark").exists()
    assert unpacked(image, "b" * 64) != first


names = st.lists(
    st.sampled_from(["a", "b", "c", "usr", "..", ".", "", "etc", "\u00e9", "x" * 20]),
    min_size=1,
    max_size=5,
).map("/".join)
members = st.lists(
    st.tuples(
        st.sampled_from([FILE, FOLDER, LINK, LINK, HARD, tarfile.CHRTYPE, tarfile.FIFOTYPE]),
        st.one_of(names, names.map("/{}".format)),
        st.one_of(names, names.map("/{}".format), names.map("../../../{}".format)),
        st.integers(0, 0o7777),
    ),
    max_size=12,
)


@settings(max_examples=examples(400))
@given(members)
def test_nothing_leaves_the_folder_whatever_the_archive_says(entries: list[Member]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        outside = Path(temporary).resolve()
        root = outside / "deep/er/root"
        root.mkdir(parents=True)
        path = write_tar(outside / "image.tar", entries)
        try:
            image = Tree(path)
        except CannotStart:
            return
        image.unpack(root)
        assert sorted(each.name for each in outside.iterdir()) == ["deep", "image.tar"]
        assert [each.name for each in (outside / "deep").iterdir()] == ["er"]
        assert [each.name for each in (outside / "deep/er").iterdir()] == ["root"]
        for folder, folders, files in os.walk(root):
            for name in (*folders, *files):
                each = Path(folder) / name
                status = each.lstat()
                kind = stat.S_IFMT(status.st_mode)
                assert kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
                assert kind == stat.S_IFLNK or not status.st_mode & 0o7022
                target = os.path.realpath(each)
                assert posixpath.commonpath([target, str(root)]) == str(root)
                # The path resolves as in the tree, or not at all.
                meant = image.resolve(f"/{each.relative_to(root)}")
                if meant is None:
                    assert not each.exists()
                else:
                    assert target == str(root / meant)


def test_a_file_with_two_names_is_one_file(tmp_path: Path) -> None:
    image = tree(
        tmp_path, (FILE, "a", "content", 0o755), (HARD, "b", "a", 0), (HARD, "c/d", "./b", 0)
    )
    (tmp_path / "root").mkdir()
    image.unpack(tmp_path / "root")
    found = {path: (tmp_path / "root" / path).stat() for path in ("a", "b", "c/d")}
    assert len({status.st_ino for status in found.values()}) == 1
    assert (tmp_path / "root/c/d").read_text() == "content"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a/" * 300 + "b", "a name of 601 characters in 301 parts, 'a/a/a/"),
        ("x" * 256, "a name of 256 characters, 'xxx"),
        ("\u00e9" * 200, "a name of 200 characters, '"),
        (f"{'x' * 200}/" * 21, "a name of 4220 characters in 21 parts, 'xxx"),
    ],
)
def test_names_longer_than_linux_allows_are_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(CannotStart) as caught:
        tree(tmp_path, (FILE, name, "", 0o644))
    assert words in str(caught.value)
    with pytest.raises(CannotStart, match="a name of"):
        tree(tmp_path, (LINK, "link", name, 0o777))


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_vperf.targets.image.tar.MEMBERS", 3)
    members = [(FOLDER, str(number), "", 0o755) for number in range(4)]
    tree(tmp_path, *members[:3])
    with pytest.raises(CannotStart, match=r"image\.tar has more than 3 members"):
        tree(tmp_path, *members)
