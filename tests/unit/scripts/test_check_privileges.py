"""Our lint rule for folders and mounts: its findings, and that our own code has none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "script/check_privileges"


def check(*paths: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, paths)], capture_output=True, text=True, cwd=ROOT
    )
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


OPEN = "open-to-others: mode 0777 lets every user write"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        # A guest kernel was once downloaded into such a folder, and whatever was in it unpacked as root.
        ("with TemporaryDirectory() as name:\n    Path(name).chmod(0o777)\n", f"2: {OPEN}"),
        ("os.chmod(name, 0o777)\n", f"1: {OPEN}"),
        ("os.fchmod(file, mode=0o777)\n", f"1: {OPEN}"),
        ("os.makedirs(name, 0o777)\n", f"1: {OPEN}"),
        ("folder.mkdir(mode=0o777, parents=True)\n", f"1: {OPEN}"),
        ("RUN = 'cd /x && chmod -R 777 .'\n", f"1: {OPEN}"),
        ("RUN = '''\nmkdir -p -m 777 /x\n'''\n", f"2: {OPEN}"),
        ("ALL = 0o777\nfolder.mkdir(mode=ALL)\n", f"2: {OPEN}"),
        (
            "folder.chmod(folder.stat().st_mode | stat.S_IWOTH)\n",
            "1: open-to-others: mode 0002 lets every user write",
        ),
        (
            "os.umask(0)\n",
            "1: open-to-others: umask 0000 lets every user write to what is made",
        ),
        (
            "RUN = '(umask 000; : >\"$lock\")'\n",
            "1: open-to-others: umask 0000 lets every user write to what is made",
        ),
        ("RUN = 'chmod a+rwX /x'\n", "1: open-to-others: a+rwX lets every user write"),
        # The disk of an image was once mounted so: a stranger's, for every user to see.
        (
            'RUN = \'mkdir -p "$2" && { mount -o loop,ro "$1" "$2" || exit 1; }\'\n',
            '1: mount: without nosuid and nodev: mount -o loop,ro "$1" "$2"',
        ),
        (
            "RUN = 'nsenter -t 1 -m mount -o loop a b'\n",
            "1: mount: without nosuid and nodev: mount -o loop a b",
        ),
        (
            'call("mount", "-t", kind, device, str(point))\n',
            "1: mount: without nosuid and nodev: mount -t … … …",
        ),
        (
            'run(["mount", "-o", f"{room},nosuid", "x", "y"])\n',
            "1: mount: without nodev: mount -o f'{room},nosuid' x y",
        ),
        (
            "RUN = 'exec mount -t tmpfs none /x'\n",
            "1: mount: without nosuid and nodev: mount -t tmpfs none /x",
        ),
    ],
)
def test_world_accessible_folders_are_found(tmp_path: Path, code: str, words: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert check(path) == (1, [f"{path}:{words}"])


@pytest.mark.parametrize(
    "code",
    [
        "folder.chmod(0o755)\nfolder.mkdir(mode=0o700)\n",
        "folder.chmod(0o1777)\n",  # sticky, as /tmp is
        "old = os.umask(0o077)\nos.umask(old)\nRUN = 'umask 077; umask'\n",
        "MODE = MODE\nfolder.chmod(MODE)\n",
        '"""mount -o loop is said here only, and chmod 777."""\n',
        "packages = ('util-linux', 'mount', 'e2fsprogs')\n",
        'call("umount", "-l", point)\n',
        "RUN = 'mount --bind a b; mount --rbind /dev c; mount -t proc proc /proc'\n",
        'RUN = \'mount -o loop,ro,nosuid,nodev "$1" "$2"\'\n',
        'call("mount", "-t", "tmpfs", "-o", f"{room},nosuid,nodev", "x", str(folder))\n',
        "# Not for others: only its lock counts.\nos.fchmod(file, 0o666)\n",
        "RUN = 'amount -t x; chmod 755 y; chmod go-w z; chmod u+w z'\n",
    ],
)
def test_harmless_code_is_not_reported(tmp_path: Path, code: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert check(tmp_path) == (0, ["no folder and no mount lets others in"])


def test_shell_files_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "init.sh"
    path.write_text("#!/bin/sh\n\nmount -t tmpfs tmpfs /tmp\nchmod 0777 /tmp\n")
    assert check(path) == (
        1,
        [
            f"{path}:3: mount: without nosuid and nodev: mount -t tmpfs tmpfs /tmp",
            f"{path}:4: {OPEN}",
        ],
    )


def test_scripts_are_known_by_their_first_lines(tmp_path: Path) -> None:
    for name, text in {
        "shell": "#!/usr/bin/env bash\nchmod 777 x\n",
        "snake": "#!/usr/bin/env python3\nos.mkdir('x', 0o777)\n",
        "prose": "chmod 777 x\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert check(tmp_path) == (1, [f"{tmp_path}/shell:2: {OPEN}", f"{tmp_path}/snake:2: {OPEN}"])


def test_our_own_code_makes_no_folder_world_accessible() -> None:
    assert check() == (0, ["no folder and no mount lets others in"])
