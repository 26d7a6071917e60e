"""Waiting for sockets, with more of them open than select(2) knows."""

from __future__ import annotations

import math
import resource
import socket
import time
from contextlib import ExitStack

import pytest

from pytest_vperf.density.filling import many_files
from pytest_vperf.targets.process import ready


def test_what_can_be_read_and_written() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert ready([one], [], 0) == ([], [])
        assert ready([], [one], 0) == ([], [one])
        other.send(b"x")
        assert ready([one], [one], 5) == ([one], [one])
        one.recv(1)
        other.close()
        assert ready([one], [], 5) == ([one], [])  # the end is to be read


def test_it_waits_no_longer_than_it_should() -> None:
    one, other = socket.socketpair()
    with one, other:
        began = time.monotonic()
        assert ready([one], [], 0.05) == ([], [])
        assert 0.05 <= time.monotonic() - began < 2
        assert ready([one], [], -1) == ([], [])
        other.send(b"x")
        for long in (1e9, math.inf):  # more milliseconds than poll(2) takes
            assert ready([one], [], long) == ([one], [])


def test_with_more_files_than_select_knows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with many_files(), ExitStack() as opened:
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2048:
            pytest.skip("this process may not have so many files open")
        pairs = [socket.socketpair() for _ in range(600)]
        for pair in pairs:
            for each in pair:
                opened.enter_context(each)
        one, other = pairs[-1]
        assert one.fileno() > 1024
        other.send(b"x")
        assert ready([one], [other], 5) == ([one], [other])
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
