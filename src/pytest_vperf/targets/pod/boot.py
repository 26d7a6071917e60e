"""Starting a pod: the clock runs from the request until the container's process does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.pod.agent_wire import Frame, Type, command_payload
from pytest_vperf.targets.pod.machine import Machine
from pytest_vperf.targets.pod.pod import DEFAULT_ENVIRONMENT, Pod

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.pod.command_line import MachineConfig


#: How long a container's process is watched after its start, outside the clock, in seconds: as in the container
#: target, one that ends at once has not started. Emulated, "at once" is longer: twice the phase before.
SETTLED = 0.05


def boot(
    assets: Assets,
    config: MachineConfig,
    firmware: str,
    run: Run,
    *,
    command: tuple[str, ...],
    timeout: float,
    why_accelerator: str = "",
) -> Pod:
    """Start a machine and the container in it; nothing is left running when this raises.

    Args:
        assets: prepared before.
        config: the machine.
        firmware: the firmware's name.
        run: owns the process.
        command: the container's process.
        timeout: seconds for the whole start.
        why_accelerator: why it has this one and no quicker, for the record; empty where it was asked for.

    Raises:
        CannotStart: QEMU, the kernel or the container failed; the message has the last words of each.
        TimedOut: not ready within ``timeout``.
        ValueError: the command has a NUL character.
    """
    name = f"pod {config.accelerator} {firmware}"
    start = Frame(Type.START, 1, command_payload(command, dict(DEFAULT_ENVIRONMENT), "/"))
    details = assets.details(config, firmware)
    if why_accelerator:
        details["why_accelerator"] = why_accelerator
    began = time.perf_counter()
    machine = Machine(assets.qemu, config, run, name)
    try:
        # The order waits in the socket until the agent opens its port: one round trip less.
        machine.wire.send(start)
        machine.go(timeout)
        deadline = began + timeout
        machine.await_frame(Type.READY, "agent", deadline)
        machine.await_frame(Type.RUNNING, "container", deadline)
        _look_after(machine, command)
    except BaseException:
        machine.close()
        raise
    return Pod(machine, began, details, assets.rootfs)


def _look_after(machine: Machine, command: tuple[str, ...]) -> None:
    """Make sure that the container's process is still there a moment later.

    Raises:
        CannotStart: it ended at once; with its status and what it printed.
    """
    said = b""
    took = machine.marks["container"] - machine.marks["agent"]
    deadline = time.perf_counter() + max(SETTLED, 2 * took)
    while time.perf_counter() < deadline:
        for frame in machine.next_frames(deadline):
            if frame.type in (Type.OUTPUT, Type.ERRORS):
                said += frame.payload
            elif frame.type is Type.EXIT:
                status = int.from_bytes(frame.payload[:4], "little")
                words = said.decode("utf-8", "replace").strip()[-500:]
                raise CannotStart(
                    f"{machine.name}: its container ended at once ({' '.join(command)}) with status {status}"
                    + (f":\n{words}" if words else " and no output"),
                    target=machine.name,
                )
