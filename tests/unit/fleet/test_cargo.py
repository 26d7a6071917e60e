"""What is sent to a machine arrives as it was, once."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from fleets import wheel
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.fleet import cargo
from pytest_vperf.fleet.cargo import CannotSend, pack
from pytest_vperf.fleet.project import files_of, named

NAMES = st.text("ab.- é\n", min_size=1, max_size=6).filter(lambda name: name.strip("."))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("VPERF_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "test_it.py").write_text("def test_it(): pass\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    (folder / "to").symlink_to("tests")
    return folder


def order(sent: cargo.Cargo, root: Path, *words: str) -> dict[str, object]:
    own = {"digest": sent.digest, "root": str(root), "folder": "tests", "ini": None}
    return {"cargo": own, "words": list(words), "environment": {"PYTEST_ADDOPTS": f"-c {root}/x"}}


def test_a_project_arrives_as_it_is(root: Path, tmp_path: Path) -> None:
    sent = pack(root, files_of(root))
    assert sent.names == {"tests/test_it.py", "run.sh", "to"} or "to" not in sent.names
    assert cargo.kept(sent.digest) is None
    folder = cargo.keep(sent.digest, sent.line)
    assert cargo.kept(sent.digest) == folder
    to = tmp_path / "copy"
    words = [str(root), f"{root}/tests::test_it", f"--x={root}/y", f"{root}s", f"/a{root}/b"]
    own = cargo.lay_out(folder, to, order(sent, root, *words))
    assert (to / "tests" / "test_it.py").read_text() == "def test_it(): pass\n"
    assert os.access(to / "run.sh", os.X_OK)
    assert own["folder"] == f"{to}/tests"
    moved = [f"{to}", f"{to}/tests::test_it", f"--x={to}/y", f"{root}s", f"/a{root}/b"]
    assert own["words"] == [f"--rootdir={to}", *moved]
    assert own["environment"] == {"PYTEST_ADDOPTS": f"-c {to}/x"}
    # What a shard writes is its own.
    (to / "tests" / "test_it.py").write_text("")
    assert (folder / "files" / "tests" / "test_it.py").read_text() != ""


@given(st.dictionaries(NAMES, st.binary(max_size=40), max_size=5))
def test_names_and_contents_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("project")
    for name, content in files.items():
        (root / name).write_bytes(content)
    sent = pack(root, (root / name for name in files))
    for name in files:  # neither times nor the order decide what it is
        os.utime(root / name, (1, 1))
    assert pack(root, [root / name for name in files][::-1]) == sent
    folder = cargo.keep(sent.digest, sent.line)
    assert {each.name: each.read_bytes() for each in (folder / "files").iterdir()} == files


def test_what_has_not_arrived_as_it_was_is_refused(root: Path) -> None:
    sent = pack(root, files_of(root))
    (root / "run.sh").write_text("other")
    for line, message in (
        (pack(root, files_of(root)).line, "what was sent has not arrived as it was"),
        (b"{}", "what was sent is no archive"),
        (b"[]", "what was sent is no archive"),
        (b'{"cargo": "AAAA"}', "what was sent is no archive"),
        (b"\xff", "decode"),
    ):
        with pytest.raises(ValueError, match=message):
            cargo.keep(sent.digest, line)
    assert cargo.kept(sent.digest) is None


def test_git_says_what_is_no_file_of_the_project(root: Path) -> None:
    (root / ".gitignore").write_text("build/\n")
    (root / "build").mkdir()
    (root / "build" / "runsc").touch()
    (root / ".hidden").mkdir()
    (root / ".hidden" / "x").touch()
    found = {str(each.relative_to(root)) for each in files_of(root)}
    assert found >= {"tests/test_it.py", "run.sh", "build/runsc", ".gitignore"}
    assert ".hidden/x" not in found
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    found = {str(each.relative_to(root)) for each in files_of(root)}
    assert found == {"tests/test_it.py", "run.sh", ".gitignore", ".hidden/x", "to"}


def test_patterns_name_files_and_folders(root: Path) -> None:
    assert list(named(root, ["tests", "*.sh"])) == [root / "tests" / "test_it.py", root / "run.sh"]
    for pattern in ("build/*", "../*", "tests/../../project/*", "/etc/*", "**x**"):
        with pytest.raises(CannotSend, match="there is no file"):
            list(named(root, [pattern]))


def test_links_lead_to_the_same(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("outside")
    (root / "out").symlink_to("../outside")
    (root / "absolute").symlink_to(root / "run.sh")
    (root / "gone").symlink_to("nowhere")
    sent = pack(root, (root / name for name in ("to", "out", "absolute", "gone")))
    files = cargo.keep(sent.digest, sent.line) / "files"
    assert (files / "to").readlink() == Path("tests")
    assert not (files / "out").is_symlink()
    assert (files / "out").read_text() == "outside"
    assert (files / "absolute").read_text() == "#!/bin/sh\n"
    assert (files / "gone").is_symlink()


def test_too_much_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cargo, "MOST", 1 << 20)
    (root / "large").write_bytes(bytes(2 << 20))
    with pytest.raises(CannotSend, match="project has more than 1 MiB of files"):
        pack(root, files_of(root))
    with pytest.raises(CannotSend, match="project and the wheels have more than 1 MiB"):
        pack(root, [], [root / "large"])


def test_what_is_not_used_for_long_is_discarded(root: Path, own_cache: Path) -> None:
    first = pack(root, files_of(root))
    folder = cargo.keep(first.digest, first.line)
    long_ago = time.time() - 15 * 86400
    os.utime(folder, (long_ago, long_ago))
    second = pack(root, [])
    cargo.keep(second.digest, second.line)
    assert [each.name for each in (own_cache / "fleet").glob("*/")] == [second.digest]
    assert len(list((own_cache / "fleet").iterdir())) <= 2


def test_a_wheel_is_installed_for_the_tests_alone(root: Path, tmp_path: Path) -> None:
    sent = pack(root, [], [wheel(tmp_path, "def main(): print('it runs')\n")])
    folder = cargo.keep(sent.digest, sent.line)
    own = cargo.lay_out(folder, tmp_path / "copy", order(sent, root))["environment"]
    done = subprocess.run(
        ["a-runtime"], env={**os.environ, **own}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "it runs\n"


def test_what_is_no_wheel_is_said_and_not_kept(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "a_runtime-1.0-py3-none-any.whl"
    path.write_text("no wheel")
    sent = pack(root, [], [path])
    with pytest.raises(OSError, match="the wheels cannot be installed: "):
        cargo.keep(sent.digest, sent.line)
    assert cargo.kept(sent.digest) is None
