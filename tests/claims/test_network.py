"""How much the network of a target carries: claim S16, and of S18 a machine's network against a container's.

The document does not say which ends it measured between. Here one end is another host, by default a network namespace
of this machine behind a bridge, or a machine that ``--load-host`` names; the other end is the target. A single stream
of TCP, a second of it left out at the beginning, what the receiver got.
"""

import pytest

pytestmark = pytest.mark.network

TIME = 3


def test_network_of_the_host(claim, native, other_host, iperf3):
    with iperf3.serve(native) as server:
        claim("network.iperf3.host").holds(
            lambda: iperf3.tcp(other_host, to=server, time=TIME).throughput
        )


def test_network_of_a_container(claim, containers, network, other_host, iperf3):
    proven = claim(f"network.iperf3.container.{containers.runtime}")
    with iperf3.serve(containers.start(network=network)) as server:
        proven.holds(lambda: iperf3.tcp(other_host, to=server, time=TIME).throughput)


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_network_of_a_pod(claim, pods, network, other_host, iperf3):
    proven = claim(f"network.iperf3.pod.{pods.accelerator}")
    with iperf3.serve(pods.start(network=network)) as server:
        proven.holds(lambda: iperf3.tcp(other_host, to=server, time=TIME).throughput)


def test_network_of_a_xen_machine(claim, domus, iperf3):
    proven = claim("network.iperf3.domu")
    # Between the machine and its host: the network of the run there has nobody else.
    network = domus.network
    with iperf3.serve(domus.start(network=network)) as server:
        proven.holds(lambda: iperf3.tcp(domus.host, to=server, time=TIME).throughput)


def test_a_xen_machine_has_the_better_network(
    claim, domus, containers, network, other_host, iperf3
):
    proven = claim(f"network.iperf3.domu_over_container.{containers.runtime}")
    # Each between the target and another host on its own bridge. The document's container is behind Docker's, with
    # address translation, which costs it; ours has none.
    client = domus.other_host()
    domu, container = domus.start(network=domus.network), containers.start(network=network)
    with iperf3.serve(domu) as far, iperf3.serve(container) as near:
        proven.compares(
            lambda: iperf3.tcp(client, to=far, time=TIME).throughput,
            to=lambda: iperf3.tcp(other_host, to=near, time=TIME).throughput,
        )
