"""Waiting for sockets and files, with more of them open than select(2) knows."""

from __future__ import annotations

import math
import os
import resource
import socket
import time
from pathlib import Path

import pytest

from pytest_vperf.density.filling import many_files
from pytest_vperf.targets.process import ready


def test_readable_and_writable_sockets() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert ready([one], [], 0) == ([], [])
        assert ready([], [one], 0) == ([], [one])
        other.send(b"x")
        assert ready([one], [one], 5) == ([one], [one])
        one.recv(1)
        other.close()
        assert ready([one], [], 5) == ([one], [])  # the end is to be read


def test_a_wait_ends_at_its_time_limit() -> None:
    one, other = socket.socketpair()
    with one, other:
        began = time.monotonic()
        assert ready([one], [], 0.05) == ([], [])
        assert 0.05 <= time.monotonic() - began < 2
        assert ready([one], [], -1) == ([], [])
        other.send(b"x")
        for long in (1e9, math.inf):  # more milliseconds than poll(2) takes
            assert ready([one], [], long) == ([one], [])


@pytest.mark.usefixtures("more_files_than_select_knows")
def test_file_numbers_beyond_the_limit_of_select() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert one.fileno() > 1024
        other.send(b"x")
        assert ready([one], [other], 5) == ([one], [other])


def test_files_other_than_sockets_can_be_waited_for() -> None:
    reader, writer = os.pipe()
    ended = os.pidfd_open(os.getpid())
    with Path(__file__).open() as file:
        assert ready([reader, ended], [writer], 0) == ([], [writer])
        os.write(writer, b"x")
        assert ready([reader, ended], [], 5) == ([reader], [])
        assert ready([file], [], 5) == ([file], [])
    for each in (reader, writer, ended):
        os.close(each)


def test_the_limit_of_open_files_is_restored() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with many_files():
        pass
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
