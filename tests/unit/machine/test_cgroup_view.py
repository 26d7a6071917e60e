"""Which machines have a hybrid tree of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vperf.machine import cgroup_view

V1 = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V2 = "31 25 0:27 / {} rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (V1, None),
        (V2.format("/sys/fs/cgroup"), None),
        (V1 + V2.format("/sys/fs/cgroup/unified"), "/sys/fs/cgroup/unified"),
        (V2.format("/odd\\040place") + V1, "/odd place"),
        ("", None),
    ],
)
def test_a_hybrid_machine_has_both_versions(table: str, found: str | None) -> None:
    assert cgroup_view.hybrid(lambda _: table) == (Path(found) if found else None)


def test_the_mount_point_is_one_word_of_the_shell() -> None:
    words = cgroup_view.hiding(Path("/odd place"))
    assert words[:4] == ("unshare", "--mount", "sh", "-c")
    assert words[4] == "umount '/odd place' && exec \"$@\""
