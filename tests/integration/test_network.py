"""Two ends on the run's own network: a server in one target is reached from another, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine import leftovers, networks
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import check
from pytest_vperf.targets.host import EmbeddedHost, Host
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.network.switch import Switch
from pytest_vperf.targets.network.user_mode import UserNetwork
from pytest_vperf.targets.pod import assets
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.workloads.bench import Bench
from pytest_vperf.workloads.iperf import Iperf
from pytest_vperf.workloads.iperf3 import Iperf3
from pytest_vperf.workloads.netperf import Netperf

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.container.engine import Engine
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.scope import Scope

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make network namespaces and links"
)


@pytest.fixture
def start(
    request: pytest.FixtureRequest,
    session_run: Run,
    switch: Switch,
    vperf_scope: Scope,
    tools: Rootfs,
) -> Callable[[str], Any]:
    """Starts a target on the run's network: ``host``, ``other``, a runtime, or ``pod``."""

    def container(runtime: str) -> Target:
        request.getfixturevalue("require")("container", check([runtime])[1])
        engine: Engine = request.getfixturevalue("engine")
        identity = rootfs.import_into(engine.client, tools)
        factory = Containers(
            lambda: engine,
            session_run,
            vperf_scope,
            runtime=runtime,
            rootfs=lambda _: identity,
            tree=lambda: tools,
        )
        return factory.start(network=switch)

    def make(kind: str) -> Target:
        if kind == "host":
            host = vperf_scope.own(Host(session_run, lambda: tools))
            host.link = switch.host
            return host
        if kind == "other":
            return vperf_scope.own(
                EmbeddedHost(*switch.new_host(), run=session_run, rootfs=lambda: tools)
            )
        if kind == "pod":
            prepared = assets.prepare(tools)
            return Pods(lambda: prepared, session_run, vperf_scope, accelerator="tcg").start(
                network=switch
            )
        return container(kind)

    return make


@pytest.mark.parametrize(
    ("client", "server"),
    [
        ("other", "host"),
        pytest.param("host", "runc", marks=pytest.mark.patient),
        pytest.param("runc", "runc", marks=pytest.mark.patient),
        ("runsc", "host"),
        pytest.param("host", "runsc", marks=pytest.mark.patient),
        ("host", "pod"),
        pytest.param("pod", "runc", marks=pytest.mark.patient),
    ],
)
def test_three_tools_measure_between_two_targets(
    start: Callable[[str], Any], vperf_scope: Scope, client: str, server: str
) -> None:
    one, other = start(client), start(server)
    bench = Bench(vperf_scope)
    moved = Iperf3(bench).tcp(one, to=other, time=1, omit=0)
    arrived = Iperf(bench).udp(one, to=other, time=1, rate="10 Mbit/s", length=512)
    answered = Netperf(bench).tcp_rr(one, to=other, time=1)
    assert moved.throughput.to("Mbit/s").value > 1
    assert 0 < arrived.packets.value <= arrived.sent.value * 1.1
    # One at a time: together they take no longer than the second in which they were made.
    assert answered.mean is not None
    assert 0 < answered.rate.value * answered.mean.value <= 1.1e6
    # Both ends ran the same bytes.
    used = {(use.program.name, use.program.sha256) for use in vperf_scope.take_tools()}
    assert sorted(name for name, _ in used) == ["iperf", "iperf3", "netperf", "netserver"]


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        ("host", "veth, run's own bridge"),
        ("other", "veth, run's own bridge"),
        ("runc", "veth, run's own bridge"),
        ("runsc", "veth, run's own bridge"),
        ("pod", "tap, run's own bridge"),
    ],
)
def test_facts_say_what_the_link_is(
    start: Callable[[str], Any], switch: Switch, kind: str, network: str
) -> None:
    target = start(kind)
    details = target.facts().details
    assert details["network"] == network
    assert details["address"] == f"{target.link.address}/24"
    assert "network_rate" not in details
    if kind == "runsc":
        assert details["network_note"] == (
            "the namespace is held by a container of runc, because runsc needs its link before it starts"
        )


def test_link_is_limited_both_ways_and_read_back(start: Callable[[str], Any]) -> None:
    target = start("other")
    assert target.link.limit("100 Mbit/s").to("Mbit/s").value == 100
    assert target.facts().details["network_rate"] == "100 Mbit/s"
    assert target.link.limit("2 Gbit/s").to("Gbit/s").value == 2
    target.link.lift()
    assert target.link.rate() is None
    with pytest.raises(
        TargetError, match=r"a link cannot be limited to 5 bit/s: at least 1 kbit/s"
    ):
        target.link.limit("5 bit/s")


def test_server_is_ready_in_the_block_and_gone_after_it(
    start: Callable[[str], Any], vperf_scope: Scope
) -> None:
    host, other = start("host"), start("other")
    iperf3 = Iperf3(Bench(vperf_scope))
    with iperf3.serve(other) as server:
        serving = [each for each in psutil.process_iter() if _listens(each, server.port)]
        assert len(serving) == 1
        first = iperf3.tcp(host, to=server, time=1)
        second = iperf3.tcp(host, to=server, time=1, reverse=True)
        assert first.throughput.unit == second.throughput.unit == "bit/s"
    assert not serving[0].is_running() or serving[0].status() == psutil.STATUS_ZOMBIE
    assert not other.run(["sh", "-c", f"cat {server.log}"], check=False).stdout


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return str(port) in words and "-s" in words and "nsenter" not in words[0] and words[0] != "sh"


def test_client_is_told_why_there_is_no_way(
    start: Callable[[str], Any], vperf_scope: Scope, session_run: Run, tools: Rootfs
) -> None:
    iperf3 = Iperf3(Bench(vperf_scope))
    prepared = assets.prepare(tools)
    pods = Pods(lambda: prepared, session_run, vperf_scope, accelerator="tcg")
    pod, alone = pods.start(network=UserNetwork()), pods.start()
    with pytest.raises(
        Unavailable, match=r"no route from a user link to 198\.\d+\.\d+\.\d+: the run's own network"
    ):
        iperf3.tcp(pod, to=start("other"), time=1)
    with pytest.raises(
        TargetError, match=r"pod tcg qboot is on no network: start it with network=network"
    ):
        iperf3.tcp(start("host"), to=alone, time=1)


def test_pod_on_a_user_mode_network_that_reaches_nothing_serves_tcp_and_udp(
    vperf_scope: Scope, session_run: Run, tools: Rootfs
) -> None:
    network = UserNetwork()
    host = vperf_scope.own(Host(session_run, lambda: tools))
    host.link = network.host
    prepared = assets.prepare(tools)
    pod = Pods(lambda: prepared, session_run, vperf_scope, accelerator="tcg").start(network=network)
    bench = Bench(vperf_scope)
    assert Iperf3(bench).tcp(host, to=pod, time=1).throughput.value > 0
    assert Iperf(bench).udp(host, to=pod, time=1, rate="1 Mbit/s", length=512).packets.value > 0
    with pytest.raises(Unavailable, match="accepts connections and opens none"):
        Netperf(bench).tcp_rr(pod, to=host, time=1)


def test_pod_on_a_user_mode_network_serves_and_is_served(
    vperf_scope: Scope, session_run: Run, tools: Rootfs
) -> None:
    network = UserNetwork()
    host = vperf_scope.own(Host(session_run, lambda: tools))
    host.link = network.host
    prepared = assets.prepare(tools)
    pods = Pods(lambda: prepared, session_run, vperf_scope, accelerator="tcg")
    pod = pods.start(network=network, reaches_host=True)
    netperf = Netperf(Bench(vperf_scope))
    assert netperf.tcp_rr(host, to=pod, time=1).rate.value > 0
    assert netperf.tcp_rr(pod, to=host, time=1).rate.value > 0
    assert pod.facts().details["network"].startswith("QEMU's user-mode network")


def test_vhost_is_used_or_reported_missing(
    session_run: Run, vperf_scope: Scope, switch: Switch, tools: Rootfs
) -> None:
    prepared = assets.prepare(tools)
    pods = Pods(lambda: prepared, session_run, vperf_scope, accelerator="tcg")
    if not Path("/dev/vhost-net").exists():
        with pytest.raises(Unavailable, match=r"there is no /dev/vhost-net"):
            pods.start(network=switch, vhost=True)
        return
    details = pods.start(network=switch, vhost=True).facts().details
    assert details["network_note"] == "vhost-net moves the packets"


def test_closed_switch_leaves_nothing(session_run: Run) -> None:
    before = networks.links_of(session_run.id), networks.namespaces_of(session_run.id)
    with Run.begin() as run:
        made = Switch(run)
        made.new_host()
        assert networks.links_of(run.id) == [f"vp{run.id}h"]
        assert networks.namespaces_of(run.id) == [f"vperf-{run.id}-host1", f"vperf-{run.id}-switch"]
        made.close()
        made.close()
        assert not networks.links_of(run.id) + networks.namespaces_of(run.id)
    assert before == (networks.links_of(session_run.id), networks.namespaces_of(session_run.id))


def test_leftovers_of_a_killed_run_are_found_and_removed(runs_dir: Path) -> None:
    program = """
        import time
        from pytest_vperf.machine.runs import Run
        from pytest_vperf.targets.network.switch import Switch
        run = Run.begin()
        switch = Switch(run)
        switch.new_host()
        descriptors = switch.card().descriptors
        print(run.id, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        run = process.stdout.readline().strip()
        assert leftovers.find() == []
        process.send_signal(signal.SIGKILL)
    found = leftovers.find()
    assert [(each.kind, each.what) for each in found] == [
        ("link", f"link vp{run}h"),
        ("namespace", f"namespace vperf-{run}-host1"),
        ("namespace", f"namespace vperf-{run}-switch"),
        ("folder", f"folder {runs_dir}/run-{run}"),
    ]
    assert leftovers.remove(found) == []
    assert leftovers.find() == []
    assert not networks.links_of(run) + networks.namespaces_of(run)


def test_host_has_one_link_and_no_other_rule(session_run: Run, switch: Switch) -> None:
    assert networks.links_of(session_run.id) == [f"vp{session_run.id}h"]
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    ours = [line for line in routes.splitlines() if session_run.id in line]
    assert len(ours) == 1
    assert ours[0].startswith(switch.subnet)


def test_container_reaches_nothing_but_the_switch(start: Callable[[str], Any]) -> None:
    routes = start("runc").run(["ip", "route"]).text.splitlines()
    assert len(routes) == 1
    assert "default" not in routes[0]
