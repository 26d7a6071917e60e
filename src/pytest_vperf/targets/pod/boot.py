"""Starting a pod: the clock runs from the request until the container's process does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf.targets.pod.agent_wire import Frame, Type, command_payload
from pytest_vperf.targets.pod.machine import Machine
from pytest_vperf.targets.pod.pod import DEFAULT_ENVIRONMENT, Pod

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.pod.command_line import MachineConfig


def boot(
    assets: Assets,
    config: MachineConfig,
    firmware: str,
    run: Run,
    *,
    command: tuple[str, ...],
    timeout: float,
) -> Pod:
    """Start a machine and the container in it; nothing is left running when this raises.

    Args:
        assets: prepared before.
        config: the machine.
        firmware: the firmware's name.
        run: owns the process.
        command: the container's process.
        timeout: seconds for the whole start.

    Raises:
        CannotStart: QEMU, the kernel or the container failed; the message has the last words of each.
        TimedOut: not ready within ``timeout``.
        ValueError: the command has a NUL character.
    """
    name = f"pod {config.accelerator} {firmware}"
    start = Frame(Type.START, 1, command_payload(command, dict(DEFAULT_ENVIRONMENT), "/"))
    details = assets.details(config, firmware)
    began = time.perf_counter()
    machine = Machine(assets.qemu, config, run, name)
    try:
        # The order waits in the socket until the agent opens its port: one round trip less.
        machine.wire.send(start)
        machine.go(timeout)
        deadline = began + timeout
        machine.await_frame(Type.READY, "agent", deadline)
        machine.await_frame(Type.RUNNING, "container", deadline)
    except BaseException:
        machine.close()
        raise
    return Pod(machine, began, details)
