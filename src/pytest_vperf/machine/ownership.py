"""Who owns a folder: nothing is safe to keep, or to run, where another user may change it. Also free user IDs, one
for each untrusted process that root starts. A user ID needs no entry in /etc/passwd. Those here are in a range that
systemd's list (https://systemd.io/UIDS-GIDS/) calls unused, and that the defaults of SSSD and of subuid(5) do not
reach. If a user namespace lacks it, as in most unprivileged containers, a small range below 65536 is used, which that
list calls unused too. An ID with a name or a process is never taken.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import itertools
import os
import pwd
import secrets
import stat
import threading
from pathlib import Path

#: User IDs, which are also the group IDs; the first range that this user namespace has is used.
RANGES = (range(2_080_000_000, 2_080_000_000 + (1 << 24)), range(60_706, 61_184))

# Starts at a random number, so that another run takes others.
_counter = itertools.count(secrets.randbelow(1 << 24))
_counting = threading.Lock()


def free() -> int:
    """A user ID without name or process, which this process has not been given before.

    Raises:
        OSError: there is none.
    """
    users = next((each for each in RANGES if _mapped(each)), None)
    if users is None:
        raise OSError(errno.EINVAL, f"this user namespace has none of the user IDs {_shown()}")
    for _ in range(len(users)):
        with _counting:
            user = users[next(_counter) % len(users)]
        if not _in_use(user):
            return user
    raise OSError(errno.EAGAIN, f"all user IDs from {users[0]} to {users[-1]} are in use")


def ours(user: int) -> bool:
    """Whether a user's processes are ours: this user's and, for root, those of IDs in the ranges of `free`."""
    return user == os.getuid() or (os.getuid() == 0 and any(user in each for each in RANGES))


def _in_use(user: int) -> bool:
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            look_up(user)
            return True
    try:
        os.getpriority(os.PRIO_USER, user)
    except ProcessLookupError:  # it has no process (getpriority(2))
        return False
    return True


def _mapped(users: range) -> bool:
    """Whether this user namespace has the whole range of user and group IDs (user_namespaces(7))."""
    for name in ("uid_map", "gid_map"):
        lines = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        if not any(
            int(first) <= users[0] and users[-1] < int(first) + int(count)
            for first, _, count in lines
        ):
            return False
    return True


def _shown() -> str:
    return " or ".join(f"{each[0]} to {each[-1]}" for each in RANGES)


def require_own(folder: Path, variable: str, *, named: bool) -> None:
    """Make sure that a folder, if it exists, is this user's, and that nobody else may write to it.

    The group's write permission, which the umask may have left, is removed from the usual folder; one that the user
    named stays as it is.

    Args:
        folder: the folder; links in its path are followed.
        variable: the environment variable that can name another one.
        named: whether that variable named this one.

    Raises:
        PermissionError: it is not; the message says whose it is, and what to do.
    """
    try:
        status = folder.stat()
    except FileNotFoundError:
        return
    if status.st_uid != os.geteuid():
        raise PermissionError(
            f"{folder} belongs to another user ({name(status.st_uid)}); set {variable} to a folder of yours"
        )
    open_to = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if open_to and (named or open_to & stat.S_IWOTH):
        raise PermissionError(
            f"other users may write to {folder}{f', which {variable} names' if named else ''};"
            f" `chmod go-w {folder}`, or set {variable} to a folder that only you may write to"
        )
    if open_to:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~open_to)


def stranger_above(folder: Path) -> str:
    """Who else, apart from root, could replace this folder by another, in words; empty if nobody.

    That is whoever owns a folder above it, or may write to one that is not sticky (path_resolution(7), inode(7)).
    Members of such a folder's group are ignored: whoever made them members trusts them.
    """
    trusted = {0, os.geteuid(), *_unknown()}
    for path in (folder.absolute(), folder.resolve()):
        for above in path.parents:
            for status in _looks(above):
                if status.st_uid not in trusted:
                    return f"{above} belongs to {name(status.st_uid)}"
                mode = status.st_mode
                if stat.S_ISDIR(mode) and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                    return f"everybody may write to {above}"
    return ""


def _looks(path: Path) -> list[os.stat_result]:
    """The status of a folder, and of the link to it if it is one; empty if it does not exist."""
    try:
        return [path.lstat(), path.stat()]
    except OSError:
        return []


def _unknown() -> set[int]:
    """The user that owns unmapped files in a user namespace (user_namespaces(7)), such as its /; empty elsewhere."""
    try:
        whole = Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
        return set() if whole else {int(Path("/proc/sys/kernel/overflowuid").read_text())}
    except (OSError, ValueError):
        return set()


def name(user: int) -> str:
    """A user's name, or number if it has no name."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
