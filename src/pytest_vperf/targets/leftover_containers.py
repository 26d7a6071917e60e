"""What dead runs left in an engine that is not theirs: containers, known by their labels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.labelled import dead_run
from pytest_vperf.machine.leftovers import Leftover
from pytest_vperf.machine.runs import LABEL_PLACE, place
from pytest_vperf.targets.base import CannotConnect
from pytest_vperf.targets.engine_address import answering

if TYPE_CHECKING:
    from docker import DockerClient


def find(client: DockerClient, url: str) -> list[Leftover]:
    """The containers of this machine's and user's dead runs in an engine.

    Args:
        client: the engine's client.
        url: where it is, for messages.

    Raises:
        CannotConnect: the engine does not answer.
    """
    api: Any = client.api
    with answering(url):
        ours = api.containers(all=True, filters={"label": f"{LABEL_PLACE}={place()}"})
    found = []
    for container in ours:
        run = dead_run(container["Labels"])
        if run:
            name = (container["Names"] or [container["Id"][:12]])[0].lstrip("/")
            take_away = partial(_remove, client, url, container["Id"])
            found.append(Leftover(run, "container", f"container {name}", take_away))
    return found


def _remove(client: DockerClient, url: str, container: str) -> str:
    from docker.errors import APIError, NotFound

    api: Any = client.api
    try:
        with answering(url):
            api.remove_container(container, force=True, v=True)
    except NotFound:
        return ""
    except (APIError, CannotConnect) as error:
        return str(error)
    return ""


def in_reach() -> list[Leftover]:
    """`find` in the engine that answers, if one does; nothing is started for it.

    Raises:
        CannotConnect: ``DOCKER_HOST`` names an engine that does not answer.
        Unavailable: this user may not use the engine.
    """
    from pytest_vperf.targets.engine import answering_engine

    reached = answering_engine()
    return find(*reached) if reached is not None else []
