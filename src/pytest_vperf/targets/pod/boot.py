"""Starting a pod, timed from the request until the container's process runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.wire import Frame, Type, command_payload
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.pod import qemu
from pytest_vperf.targets.pod.disk import put_in_place
from pytest_vperf.targets.pod.machine import Machine, settle, settling_time
from pytest_vperf.targets.pod.pod import DEFAULT_ENVIRONMENT, Pod

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.pod.config import MachineConfig


def boot(
    assets: Assets,
    config: MachineConfig,
    firmware: str,
    run: Run,
    *,
    command: tuple[str, ...],
    timeout: float,
    why_accelerator: str = "",
    limits: Limits | None = None,
    disks: tuple[Disk, ...] = (),
) -> Pod:
    """Start a machine and the container in it; on an error, nothing is left running.

    Args:
        assets: prepared beforehand.
        config: the machine.
        firmware: the firmware's name.
        run: owns the process.
        command: the container's process.
        timeout: seconds for the whole start.
        limits: for QEMU with all its threads.
        disks: the run's disks, which ``config`` also lists.
        why_accelerator: how ``auto`` chose the accelerator, for the record; empty if it was requested by name.

    Raises:
        CannotStart: QEMU, the kernel or the container failed; with the end of the output of each.
        TimedOut: not ready within ``timeout``.
        ValueError: the command has a NUL character.
    """
    place = assets.place
    name = f"pod {config.accelerator} {firmware}{place.mark}"
    start = Frame(Type.START, 1, command_payload(command, dict(DEFAULT_ENVIRONMENT), "/"))
    details = assets.details(config, firmware)
    if why_accelerator:
        details["why_accelerator"] = why_accelerator
    group = place.group(run, limits or Limits(), name)
    if group is not None:
        details |= group.details
    lent: list[Disk] = []
    try:
        for disk in disks:
            disk.lend(name)
            lent.append(disk)
        launch = place.ready(assets.qemu, config, run, group)
        began = time.perf_counter()
        process = launch()
        try:
            machine = Machine(process, config, name)
        except BaseException:
            process.end()
            raise
    except BaseException:
        for disk in lent:
            disk.give_back()
        if group is not None:
            group.close()
        raise
    try:
        # Sent ahead: the socket holds the command until the agent opens its port, which saves a round trip.
        if config.replaceable:
            machine.wire.send(Frame(Type.IMAGE, 0, qemu.serial(qemu.FIRST).encode() + b"\0"))
        machine.wire.send(start)
        machine.go(timeout)
        deadline = began + timeout
        machine.await_frame(Type.READY, "agent", deadline)
        machine.await_frame(Type.RUNNING, "container", deadline)
        marks = machine.marks
        watched = settling_time(marks["container"] - began, marks["container"] - marks["agent"])
        settle(machine.next_frames, machine.name, command, watched)
        if group is not None:
            group.check_member(machine.pid)
        pod = Pod(machine, began, details, assets.rootfs, disks, place)
        if disks:
            put_in_place(pod, disks)
    except BaseException:
        machine.close()
        for disk in disks:
            disk.give_back()
        raise
    return pod
