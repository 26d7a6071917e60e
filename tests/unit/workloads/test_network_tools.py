"""What golden files cannot say of the network tools: refused parameters, versions, servers' reports, ports."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vperf.workloads.base import Output, ParseError, Unsupported
from pytest_vperf.workloads.iperf import IperfUdp
from pytest_vperf.workloads.iperf3 import Iperf3Tcp, Iperf3Udp
from pytest_vperf.workloads.netperf import TcpRr
from pytest_vperf.workloads.network_server import PORTS, bound_ports

# What iperf 2.1.8 printed as a server here, for a client with two streams.
SERVER = """\
------------------------------------------------------------
Server listening on UDP port 6002
UDP buffer size:  208 KByte (default)
------------------------------------------------------------
[  2] local 198.19.247.2 port 6002 connected with 198.19.247.1 port 38463
[  3] local 198.19.247.2 port 6002 connected with 198.19.247.1 port 38110
[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams
[  2] 0.0000-1.9503 sec  9.02 MBytes  38.8 Mbits/sec   0.008 ms 39120/57603 (68%)
[  3] 0.0000-1.9780 sec  8.27 MBytes  35.1 Mbits/sec   0.008 ms 33878/50815 (67%)
[ ID] Interval       Transfer     Bandwidth
[SUM] 0.0000-2.0264 sec  17.3 MBytes  71.6 Mbits/sec   72998/108418 (67%)
"""


def test_server_of_iperf_says_what_arrived() -> None:
    test = IperfUdp("198.19.247.2", 6002, time=2, streams=2, length=512)
    found = test.parse_server(Output(SERVER))
    assert found.packets.value == pytest.approx(18483 / 1.9503 + 16937 / 1.9780)
    assert found.packets.direction == "higher"
    assert found.loss.value == pytest.approx(72998 / 108418 * 100)
    assert found.loss.direction == "lower"


def test_a_repeated_last_packet_begins_no_stream() -> None:
    # As a published log of a server of iperf 2.1 has it, whose answer to the last packet was lost.
    ghost = (
        "[  3] WARNING: ack of last datagram failed.\n"
        "[  4] local 198.19.247.2 port 6002 connected with 198.19.247.1 port 38110\n"
        "[  4] 0.0000-0.0110 sec  1.00 KBytes   745 Kbits/sec   0.690 ms 1796/1798 (1e+02%)\n"
    )
    test = IperfUdp("198.19.247.2", 6002, time=2, streams=2, length=512)
    assert test.parse_server(Output(SERVER + ghost)) == test.parse_server(Output(SERVER))
    with pytest.raises(ParseError, match="it has the server's report of 3 of 2 streams"):
        test.parse_server(Output(SERVER + ghost.replace("-0.0110", "-2.0110")))


def test_report_of_one_stream_is_not_that_of_two() -> None:
    text = SERVER.replace("[  3] 0.0000", "[  3] x")
    with pytest.raises(ParseError, match="it has the server's report of 1 of 2 streams"):
        IperfUdp("a", time=2, streams=2, length=512).parse_server(Output(text))


def test_two_runs_in_one_log_are_not_one() -> None:
    with pytest.raises(ParseError, match="a stream has more than one report"):
        IperfUdp("a", time=2, streams=2, length=512).parse_server(Output(SERVER * 2))


@pytest.mark.parametrize(
    ("workload", "said", "version"),
    [
        (Iperf3Tcp, Output("iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.1.0 x86_64\n"), "3.12"),
        (Iperf3Tcp, Output("iperf 3.1.3\nLinux a 4.9.0\n"), "3.1.3"),
        (IperfUdp, Output("iperf version 2.1.8 (12 August 2022) pthreads\n"), "2.1.8"),
        (IperfUdp, Output("", "iperf version 2.0.5 (08 Jul 2010) pthreads\n"), "2.0.5"),
        (TcpRr, Output("Netperf version 2.7.0\n"), "2.7.0"),
    ],
)
def test_version_is_read(workload: Any, said: Output, version: str) -> None:
    assert workload.version_of(said) == version


@pytest.mark.parametrize(
    ("made", "version", "reason"),
    [
        (Iperf3Tcp("a"), "3.0.12", "iperf3 before 3.1 has no JSON that can be relied on"),
        (Iperf3Udp("a"), "3.0.12", "iperf3 before 3.1 has no JSON that can be relied on"),
        (IperfUdp("a"), "1.7.0", "iperf before 2.0 prints other figures"),
        (TcpRr("a"), "2.3", "netperf before 2.4 prints other tables"),
    ],
)
def test_unsupported_version_is_refused(made: Any, version: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=f"^{reason}$"):
        made.argv(version)


@pytest.mark.parametrize("workload", [Iperf3Tcp, Iperf3Udp, IperfUdp, TcpRr])
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"server": "-x"}, "server is '-x', not an address"),
        ({"server": "a b"}, "server is 'a b', not an address"),
        ({"port": 0}, "port is 0, not a whole number from 1 to 65535"),
        ({"time": 0}, "time is 0, not a whole number from 1 to 86400"),
        ({"time": True}, "time is True, not a whole number from 1 to 86400"),
        ({"time": 1.5}, r"time is 1\.5, not a whole number from 1 to 86400"),
    ],
)
def test_bad_parameters_are_refused(workload: Any, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        workload(**{"server": "a", **parameters})


def test_bound_ports_are_read_from_the_kernels_tables() -> None:
    tables = (
        "  sl  local_address rem_address   st tx_queue rx_queue\n"
        "   0: 02F713C6:1774 00000000:0000 0A 00000000:00000000 00:00000000\n"
        "4887: 00000000000000000000000000000000:1772 00000000000000000000000000000000:0000 07\n"
    )
    assert bound_ports(tables) == {0x1774, 0x1772}
    assert bound_ports("") == set()
    assert min(PORTS) > 1024


def test_the_client_of_tcp_rr_is_bound_to_a_processor() -> None:
    assert "-T" not in TcpRr("a").argv("2.7.0")
    argv = TcpRr("a", cpu=0).argv("2.7.0")
    assert argv[argv.index("-T") + 1] == "0,"
    assert argv.index("-T") < argv.index("--")
    for cpus, bound in (({"cpu": 0, "server_cpu": 1}, "0,1"), ({"server_cpu": 1}, ",1")):
        argv = TcpRr("a", **cpus).argv("2.7.0")
        assert argv[argv.index("-T") + 1] == bound
    with pytest.raises(ValueError, match=r"^cpu is -1, not a whole number from 0 to 8191$"):
        TcpRr("a", cpu=-1)


def test_udp_is_not_omitted_where_its_losses_would_be_counted() -> None:
    assert "-O" in Iperf3Udp("a", omit=1).argv("3.13")
    assert "-O" not in Iperf3Udp("a").argv("3.12")
    assert "-O" in Iperf3Tcp("a", omit=1).argv("3.12")
    words = "^iperf3 before 3.13 counts the packets lost in the omitted seconds as lost in the counted ones"
    with pytest.raises(Unsupported, match=words):
        Iperf3Udp("a", omit=1).argv("3.12")
    with pytest.raises(Unsupported, match=words):
        Iperf3Udp("a", omit=1).argv("3.1.3")


def test_an_error_shows_the_end_of_the_output_and_what_was_said_beside_it() -> None:
    many = "".join(f"line {number}\n" for number in range(1, 9))
    with pytest.raises(ParseError) as caught:
        TcpRr("a").parse(Output(many, "a warning\nthe reason\n", "2.7.0"))
    assert str(caught.value).splitlines() == [
        "netperf 2.7.0: there is no banner of a TCP_RR test in the output; it printed:",
        "    …",
        *(f"    line {number}" for number in range(3, 9)),
        "it said on standard error:",
        "    a warning",
        "    the reason",
    ]
    with pytest.raises(ParseError, match=r"in the output; it said on standard error:\n    why$"):
        TcpRr("a").parse(Output("", "why"))
    with pytest.raises(ParseError, match=r"in the output; it printed nothing$"):
        TcpRr("a").parse(Output(" \n"))
