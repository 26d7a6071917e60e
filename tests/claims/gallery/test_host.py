"""What projects ask of a host on which their machines are to run."""

import os
import shutil
import time

import pytest

from pytest_vperf import Quantity, Unavailable

pytestmark = pytest.mark.gallery

#: Seconds of work for a sample.
WINDOW = 0.5
#: Counts how often an expression is tried within the window, and prints that and the time it took.
PERL = """
use Time::HiRes "time";
my ($n, $text, $began) = (0, "the quick brown fox", time);
while (time - $began < $ARGV[0]) { for (1 .. 1000) { $n++ if $text =~ m/^([a-z]+) .*fox$/ } }
printf "%d %.6f\n", $n, time - $began;
"""


@pytest.mark.cpu
def test_perl_matches_its_expressions(claim, native):
    proven = claim("gallery.proxmox.regex")
    if shutil.which("perl") is None:
        raise Unavailable("perl is not installed", remedy="apt-get install perl", target="host")

    def rate():
        count, seconds = native.run(["perl", "-e", PERL, str(WINDOW)]).text.split()
        return Quantity(int(count) / float(seconds), "operation/s", direction="higher")

    proven.holds(rate)


@pytest.mark.disk
def test_a_file_is_forced_to_the_disk(claim, native, tmp_path):
    proven = claim("gallery.proxmox.fsync")
    if native.run(["stat", "--file-system", "--format=%T", str(tmp_path)]).text.strip() == "tmpfs":
        raise Unavailable(
            f"{tmp_path} is in memory, not on a disk",
            remedy="--basetemp=FOLDER, on a disk",
            target="host",
        )

    def rate():
        count, began = 0, time.monotonic()
        with (tmp_path / "file").open("wb") as file:
            while time.monotonic() - began < WINDOW:
                file.seek(0)
                file.write(b"text")
                file.flush()
                os.fsync(file.fileno())
                count += 1
        return Quantity(count / (time.monotonic() - began), "operation/s", direction="higher")

    proven.holds(rate)


@pytest.mark.disk
def test_a_disk_is_read_in_order(claim, native, disks, fio):
    disk = disks.make("256 MiB")
    claim("gallery.proxmox.reads").holds(
        lambda: (
            fio.read(native, disk, block_size="128 KiB", runtime="1 s", ramp_time="0 s").bandwidth
        )
    )
