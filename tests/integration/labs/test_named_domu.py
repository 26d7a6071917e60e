"""A domU that is known by SSH alone, behind the host of a lab: named on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import ssh_login
from labs_here import leaving_nothing
from named_here import Named, details
from ssh_login import Keys, Login, put_server

from pytest_vperf.targets.base import link_of
from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel
from pytest_vperf.targets.xen.domus import Domus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from labs_here import SharedLabs

    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.libvirt.daemon import Daemon

pytestmark = pytest.mark.patient


def test_a_domu_answers_that_is_known_by_ssh_alone(
    daemon_of: Callable[[str], Daemon],
    shared_labs: SharedLabs,
    tools: Rootfs,
    short_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[[str, Readiness], None],
) -> None:
    require("host", ssh_login.check())
    lab = shared_labs.get("xen")
    keys = Keys.make(short_folder / "domu-keys")
    with leaving_nothing(daemon_of("xen")) as scope:
        domus = Domus(
            lambda: daemon_of("xen"), lambda: tools, distribution_kernel, scope, timeout=240
        )
        domu = domus.start(init="small", memory="384 MiB", network=domus.network)
        put_server(domu, keys, short_folder)
        # The lab's host is the one that reaches it; it is the far end of the test, too.
        over = ["ssh", "-F", str(lab.ssh_config), "-W", "%h:%p", lab.ssh_url]
        login = Login(link_of(domu).listen, 22, keys, over)
        login.await_answer(short_folder / "log")
        named = Named(tmp_path)
        monkeypatch.setenv("VPERF_RUNS_DIR", str(shared_labs.folder))
        (claim,) = named.pytest(
            [f"xen={login.url}", "host=lab:xen"],
            [login],
            *(
                "--vperf-on=lab:xen",
                "-k",
                "overhead_of_a_machine and xen and not xenserver and idle",
            ),
            "--claims-budget=30 s",
        )
    assert claim["name"] == "response.idle.machine_over_host.xen", named.said
    assert claim["n"] >= 1, named.said
    assert claim["verdict"] == "not comparable"
    told = details(claim, "machine xen")
    assert (told["on_hypervisor"], told["shows"]) == ("xen", "hypervisor xen")
    assert details(claim, "host of machine xen")["on"] == "lab xen"
