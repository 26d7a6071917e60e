"""A PostgreSQL server of one's own: Debian's, in a folder of its own, on a socket there."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Debian keeps the programs of each version apart.
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))


@contextmanager
def postgresql() -> Iterator[str]:
    """A server, and its URL with ``%s`` for the name of a database; it refuses to run as root."""
    programs = PROGRAMS[-1]
    # Of the tests' other folders root alone may see the inside.
    folder = Path(tempfile.mkdtemp(prefix="vpt-", dir="/tmp"))
    words: list[str] = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = str(folder / "data")
    try:
        subprocess.run(
            [*words, programs / "initdb", "-D", data, "-U", "me", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        options = ["-D", data, "-k", str(folder), "-c", "listen_addresses=", "-c", "fsync=off"]
        words += ["--pdeathsig=INT"] if words else []
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*words, str(programs / "postgres"), *options], stdout=log, stderr=log, cwd=folder
            )
        try:
            _await(folder / ".s.PGSQL.5432", process)
            yield f"postgresql://me@/%s?host={folder}"
        finally:
            process.send_signal(signal.SIGINT)  # fast: whoever is connected is told
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def data_of(url: str) -> Path:
    """The folder of a server's data, by its URL."""
    return Path(url.rpartition("host=")[2], "data")


def _await(socket: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if process.poll() is not None:
            break
        if socket.exists():
            return
        time.sleep(0.1)
    raise RuntimeError((socket.parent / "log").read_text())
