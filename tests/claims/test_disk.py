"""How fast disks are: claim S15, and of S18 the machine's disk against the instance's.

The disk is one of the run, a loop device on a file, raw or with ext4 on it, or a real one that --vperf-disk names.
fio reads and writes past the page cache.
Before the first sample it is waited until a throttle has acted, which may be slow to: the document leaves that out.
"""

import pytest

pytestmark = pytest.mark.disk

JOBS = [
    ("randread", "128 KiB"),
    ("randwrite", "128 KiB"),
    ("randread", "4 KiB"),
    ("randwrite", "4 KiB"),
]
TIMES = {"runtime": "2 s", "ramp_time": "1 s"}


def name(job, block_size, kind):
    return f"{job}_{block_size.removesuffix(' KiB')}k.{kind}"


def work(fio, job, target, disk, block_size):
    """Takes a sample of a disk's bandwidth."""
    return lambda: getattr(fio, job)(target, disk, block_size=block_size, **TIMES).bandwidth


@pytest.fixture(params=["raw", "ext4"])
def disk(request, disks):
    """A disk of the run, or the one that --vperf-disk names; with it comes its kind."""
    make = disks.use if disks.named else disks.make
    return make(size="256 MiB", format="" if request.param == "raw" else "ext4"), request.param


@pytest.mark.parametrize(("job", "block_size"), JOBS)
def test_disk_of_the_instance(claim, native, fio, disk, job, block_size):
    made, kind = disk
    proven = claim(f"disk.fio.{name(job, block_size, kind)}.host")
    sample = work(fio, job, native, made, block_size)
    fio.settle(sample)
    proven.holds(sample)


@pytest.mark.parametrize(("job", "block_size"), JOBS)
@pytest.mark.parametrize("kind", ["raw", "ext4"])
def test_disk_in_a_xen_machine(claim, domus, fio, kind, job, block_size):
    proven = claim(f"disk.fio.{name(job, block_size, kind)}.domu")
    made = domus.disks.make("256 MiB", format="" if kind == "raw" else "ext4")
    domu = domus.start(vcpus=1, memory="512 MiB", disks=[made])
    sample = work(fio, job, domu, made, block_size)
    fio.settle(sample)
    proven.holds(sample)


@pytest.mark.parametrize(("job", "block_size"), JOBS)
@pytest.mark.parametrize("kind", ["raw", "ext4"])
def test_xen_costs_no_disk(claim, domus, fio, kind, job, block_size):
    proven = claim(f"disk.fio.{name(job, block_size, kind)}.domu_over_host")
    # One for each: a file system is in one place at a time.
    made, hosts = (
        domus.disks.make("256 MiB", format="" if kind == "raw" else "ext4") for _ in range(2)
    )
    host = domus.host
    domu = domus.start(vcpus=1, memory="512 MiB", disks=[made])
    ours, theirs = work(fio, job, domu, made, block_size), work(fio, job, host, hosts, block_size)
    fio.settle(ours)
    proven.near(ours, to=theirs)


@pytest.mark.parametrize(("job", "block_size"), JOBS)
def test_disk_in_a_container(claim, native, containers, fio, disk, job, block_size):
    made, kind = disk
    proven = claim(
        f"disk.fio.{name(job, block_size, kind)}.container_over_host.{containers.runtime}"
    )
    container = containers.start(disks=[made])
    ours, theirs = (work(fio, job, target, made, block_size) for target in (container, native))
    fio.settle(ours)
    proven.compares(ours, to=theirs)


#: What the document's two instances are capped at, for reads and for writes.
CAPS = {"": (1200, "19.2 MB/s"), "case_2.": (3000, "48 MB/s")}
CASES = pytest.mark.parametrize("case", CAPS, ids=["case_1", "case_2"])
DIRECTIONS = pytest.mark.parametrize(("way", "job"), [("read", "randread"), ("write", "randwrite")])


def of(way):
    """Reads are the figure's first meaning; writes say so in its name."""
    return "" if way == "read" else "write_"


@CASES
@DIRECTIONS
def test_a_cap_on_operations_is_reached(claim, containers, fio, disks, case, way, job):
    proven = claim(f"disk.cap.{case}{of(way)}iops.container.{containers.runtime}")
    made = disks.make("256 MiB")
    capped = made.capped(**{f"{way}_iops": CAPS[case][0]})
    container = containers.start(disks=[capped])
    proven.holds(lambda: getattr(fio, job)(container, made, block_size="4 KiB", **TIMES).iops)


@CASES
@DIRECTIONS
def test_a_cap_on_bandwidth_is_reached(claim, containers, fio, disks, case, way, job):
    proven = claim(f"disk.cap.{case}{of(way)}bandwidth.container.{containers.runtime}")
    made = disks.make("256 MiB")
    capped = made.capped(**{f"{way}_rate": CAPS[case][1]})
    container = containers.start(disks=[capped])
    proven.holds(
        lambda: getattr(fio, job)(container, made, block_size="128 KiB", **TIMES).bandwidth
    )
