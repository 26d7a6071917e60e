"""User IDs for processes that root starts and does not trust: one for each, and nobody else's.

A user ID costs nothing where it has no name, so none is needed in /etc/passwd. Those here are in a range that
systemd's list (https://systemd.io/UIDS-GIDS/) calls unused, and that the defaults of SSSD and of subuid(5) do not
reach. Where a user namespace does not have it, as in most unprivileged containers, it is a small one below 65536 that
is unused there too. One that has a name, or that a process has, is not taken.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import itertools
import os
import pwd
import secrets
import threading
from pathlib import Path

#: User IDs, each its own group's too; the first range that this user namespace has is used.
RANGES = (range(2_080_000_000, 2_080_000_000 + (1 << 24)), range(60_706, 61_184))

# From a number of chance on: another run takes others.
_counter = itertools.count(secrets.randbelow(1 << 24))
_counting = threading.Lock()


def free() -> int:
    """A user ID that nobody has: neither a name nor a process, and nothing that this process asked for before.

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
    """Whether processes of a user are this one's: its own, and for root those that `free` gave too."""
    return user == os.getuid() or (os.getuid() == 0 and any(user in each for each in RANGES))


def _in_use(user: int) -> bool:
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            look_up(user)
            return True
    try:
        os.getpriority(os.PRIO_USER, user)
    except ProcessLookupError:  # nobody runs under it (getpriority(2))
        return False
    return True


def _mapped(users: range) -> bool:
    """Whether this user namespace has all of some user and group IDs (user_namespaces(7))."""
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
