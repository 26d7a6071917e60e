"""What containers of one runtime and image have in common, as their engine and the first of them say."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.base import TargetError
from pytest_vperf.targets.container_exec import Exec
from pytest_vperf.targets.image import LABEL_ROOTFS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.engine import Engine
    from pytest_vperf.targets.image import Rootfs


def facts_in_common(
    engine: Engine,
    runtime: str,
    image: str,
    identity: str,
    target: str,
    tree: Callable[[], Rootfs] | None,
) -> dict[str, str]:
    """Runtime, engine, image and kernel; what is not known is left out.

    Args:
        engine: runs them.
        runtime: by the engine's name of it.
        image: its ID.
        identity: of a container that runs, whose kernel is asked for.
        target: its name, for messages.
        tree: gives the files of the image.
    """
    api: Any = engine.client.api
    labels = api.inspect_image(image)["Config"].get("Labels") or {}
    details = {
        "runtime": runtime,
        "runtime_version": engine.runtime_version(runtime),
        "engine_version": engine.version,
        "storage_driver": str(engine.info.get("Driver", "")),
        "image": image,
        "rootfs": tree().name if tree else "",
        "rootfs_sha256": labels.get(LABEL_ROOTFS, ""),
    }
    with contextlib.suppress(TargetError):
        asked = Exec(engine, identity, target).run(["uname", "-r"], timeout=10)
        details["kernel"] = asked.text.strip() if asked.returncode == 0 else ""
    if engine.machine is not None:
        details |= engine.machine.details
    return {name: value for name, value in details.items() if value}
