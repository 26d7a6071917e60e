"""How fast memory is in targets: claims S9, S12 and S14."""

import pytest

pytestmark = pytest.mark.memory

KERNELS = ["add", "copy", "scale", "triad"]
#: sysbench --test=memory --memory-total-size=150GB --memory-scope=local of the document; its block is sysbench's own.
PUBLISHED_WORK = {"total_size": "150 GiB", "scope": "local"}
LITTLE_WORK = {"total_size": "1 GiB", "block_size": "64 KiB"}
THREADS = [1, 4, 12]
#: Of a container in the table of STREAM: "1 virtual CPU and 4096 MB".
SIZE = {"cpus": 1, "memory": "4096 MiB"}
#: Turns of STREAM; the best one counts, as in the original, which has ten.
TURNS = {"repetitions": 5}


@pytest.mark.parametrize("kernel", KERNELS)
def test_stream_on_the_host(claim, native, stream, kernel):
    claim(f"memory.stream.{kernel}.host").holds(
        lambda: getattr(stream.run(native, **TURNS), kernel)
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_stream_in_a_container(claim, containers, stream, kernel):
    proven = claim(f"memory.stream.{kernel}.container.{containers.runtime}")
    container = containers.start(**SIZE)
    proven.holds(lambda: getattr(stream.run(container, **TURNS), kernel))


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
@pytest.mark.parametrize("kernel", KERNELS)
def test_stream_in_a_pod(claim, pods, stream, kernel):
    proven = claim(f"memory.stream.{kernel}.pod.{pods.accelerator}")
    pod = pods.start(vcpus=1, memory="4096 MiB")
    proven.holds(lambda: getattr(stream.run(pod, **TURNS), kernel))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_container_costs_no_bandwidth(claim, native, containers, stream, kernel):
    proven = claim(f"memory.stream.{kernel}.container_over_host.{containers.runtime}")
    container = containers.start(**SIZE)
    proven.compares(
        lambda: getattr(stream.run(container, **TURNS), kernel),
        to=lambda: getattr(stream.run(native, **TURNS), kernel),
    )


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
@pytest.mark.parametrize("kernel", KERNELS)
def test_bandwidth_overhead_of_a_pod(claim, native, pods, stream, kernel):
    proven = claim(f"memory.stream.{kernel}.pod_over_host.{pods.accelerator}")
    pod = pods.start(vcpus=1, memory="4096 MiB")
    proven.compares(
        lambda: getattr(stream.run(pod, **TURNS), kernel),
        to=lambda: getattr(stream.run(native, **TURNS), kernel),
    )


@pytest.mark.slow
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize("mode", ["normal", "single_user"])
def test_blocks_on_a_node(claim, native, boot_mode, sysbench, mode, operation, threads):
    proven = claim(f"memory.sysbench.{operation}.threads_{threads}.host.{mode}")
    boot_mode(native, mode)
    proven.holds(
        lambda: (
            sysbench.memory(
                native, operation=operation, threads=threads, **PUBLISHED_WORK
            ).throughput
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("operation", ["read", "write"])
def test_blocks_in_a_machine(claim, guests, sysbench, operation, threads):
    proven = claim(
        f"memory.sysbench.{operation}.threads_{threads}.guest.{guests.accelerator}.normal"
    )
    guest = guests.start(vcpus=4, memory="8 GiB")
    proven.holds(
        lambda: (
            sysbench.memory(
                guest, operation=operation, threads=threads, **PUBLISHED_WORK
            ).throughput
        )
    )


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("operation", ["read", "write"])
def test_memory_overhead_of_a_machine(claim, guests, sysbench, operation, threads):
    pair = f"threads_{threads}.guest_over_host.{guests.accelerator}"
    proven = claim(f"memory.sysbench.{operation}.{pair}")
    host = guests.host
    guest = guests.start(vcpus=1 if threads == 1 else min(4, int(host.run(["nproc"]).text)))
    # The document's blocks are sysbench's own, and each thread has its own.
    work = {"total_size": f"{threads} GiB", "scope": "local", "threads": threads}
    proven.compares(
        lambda: sysbench.memory(guest, operation=operation, **work).throughput,
        to=lambda: sysbench.memory(host, operation=operation, **work).throughput,
    )


@pytest.mark.parametrize("operation", ["read", "write"])
def test_memory_overhead_of_a_container(claim, native, containers, sysbench, operation):
    proven = claim(f"memory.sysbench.{operation}.container_over_host.{containers.runtime}")
    container = containers.start()
    proven.compares(
        lambda: sysbench.memory(container, operation=operation, **LITTLE_WORK).throughput,
        to=lambda: sysbench.memory(native, operation=operation, **LITTLE_WORK).throughput,
    )


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
@pytest.mark.parametrize("operation", ["read", "write"])
def test_memory_overhead_of_a_pod(claim, native, pods, sysbench, operation):
    proven = claim(f"memory.sysbench.{operation}.pod_over_host.{pods.accelerator}")
    pod = pods.start(vcpus=1)
    proven.compares(
        lambda: sysbench.memory(pod, operation=operation, **LITTLE_WORK).throughput,
        to=lambda: sysbench.memory(native, operation=operation, **LITTLE_WORK).throughput,
    )


@pytest.mark.parametrize("access", ["seq", "rnd"])
def test_writes_on_the_instance(claim, native, sysbench, access):
    claim(f"memory.sysbench.write.{access}.host").holds(
        lambda: sysbench.memory(native, access=access, **LITTLE_WORK).throughput
    )


@pytest.mark.parametrize("access", ["seq", "rnd"])
def test_writes_in_a_xen_machine(claim, domus, sysbench, access):
    proven = claim(f"memory.sysbench.write.{access}.domu")
    domu = domus.start(vcpus=1, memory="512 MiB")
    proven.holds(lambda: sysbench.memory(domu, access=access, **LITTLE_WORK).throughput)


@pytest.mark.parametrize("access", ["seq", "rnd"])
def test_xen_costs_no_writes(claim, domus, sysbench, access):
    proven = claim(f"memory.sysbench.write.{access}.domu_over_host")
    host = domus.host
    domu = domus.start(vcpus=1, memory="512 MiB")
    proven.near(
        lambda: sysbench.memory(domu, access=access, **LITTLE_WORK).throughput,
        to=lambda: sysbench.memory(host, access=access, **LITTLE_WORK).throughput,
    )
