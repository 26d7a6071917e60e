"""What a test asks for: a claim, the places to measure in, and who owns what was started."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.stash import TEST_CLAIMS, claims_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.claims.claim import Claim
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.targets.container import Containers
    from pytest_vperf.targets.engine import Engine
    from pytest_vperf.targets.host import Host
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.pod.place import Place
    from pytest_vperf.targets.remote.machine import RemoteMachine
    from pytest_vperf.targets.running_container import Container
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.ssh_host import SshHost


@pytest.fixture
def claim(
    request: pytest.FixtureRequest,
    scope: Scope,
    elsewhere: Callable[[], RemoteMachine] | None,
) -> Callable[[str], Claim]:
    """A claim by its name: ``claim(name).holds(sample)``, ``….compares(sample, to=other)`` or ``….near(…)``.

    The name is looked up in the threshold files. ``sample`` takes one sample and returns a `Quantity`; it is
    called until the evidence decides, or the time of ``--claims-budget`` is over.
    """
    from pytest_vperf import outcomes
    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Claim

    session, item = claims_session(request.config), request.node
    claims = item.stash.get(TEST_CLAIMS, None)
    if claims is None or not claims.prepared:
        # A plug-in that runs a test again takes the same item: what the run before left must not count.
        claims = item.stash[TEST_CLAIMS] = outcomes.TestClaims()
    if not claims.records:
        item.user_properties[:] = [
            each for each in item.user_properties if not str(each[0]).startswith("vperf.")
        ]
    claims.prepared = False
    try:
        selection = session.hardware.select()
    except pytest.UsageError as error:
        # Only in a worker of pytest-xdist: elsewhere the run has ended after collection.
        session.usage_error = session.usage_error or str(error)
    if session.usage_error:
        pytest.fail(f"claims cannot be judged: {session.usage_error}", pytrace=False)

    def repeat(record: ClaimRecord) -> None:
        __tracebackhide__ = True
        if record["verdict"] == "refuted" and session.settings.mode != "advisory":
            from pytest_vperf.reporting.failure import failure_text

            text = failure_text(record, session.run.fingerprint)
            claims.refutation = claims.refutation or text
            raise outcomes.ClaimRefuted(text)

    def conclude(record: ClaimRecord) -> None:
        __tracebackhide__ = True
        session.keep(item, record)
        repeat(record)

    circumstances = Circumstances(
        selection=selection,
        plan=functools.partial(session.plan, item),
        sessions=session.settings.sessions,
        seed=session.settings.seed,
        scope=scope,
        nodeid=item.nodeid,
        progress=session.progress,
        ledger=claims.ledger,
        keep=functools.partial(session.keep, item),
        conclude=conclude,
        repeat=repeat,
        pause=outcomes.pause,
    )

    if elsewhere is not None:
        # Its lock before this machine's, which a claim takes: two runs would else wait for one another.
        elsewhere()

    def make(name: str) -> Claim:
        __tracebackhide__ = True
        if session.make_claim is not None:  # nothing is judged, so that no judgement is missed
            return session.make_claim(name, circumstances)
        made = Claim(name, circumstances)
        claims.named.append(name)
        return made

    return make


def asks_for_claim(item: pytest.Item) -> bool:
    """Whether a test uses the ``claim`` fixture of this plug-in, and not one of its own with that name."""
    if "claim" not in getattr(item, "fixturenames", ()):
        return False
    info = getattr(item, "_fixtureinfo", None)
    definitions = getattr(info, "name2fixturedefs", {}).get("claim", ())
    return not definitions or definitions[-1].func.__module__ == __name__


@pytest.fixture(scope="session")
def vperf_run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The run that owns every process, container and file this session starts.

    What runs that were killed have left behind is removed first; what nobody closed, last.
    """
    from pytest_vperf.machine import leftovers
    from pytest_vperf.machine.runs import NOTE, Run, runs_folder

    claims_session(request.config).end_in_order()
    if any(runs_folder().glob(f"run-*/{NOTE}")):  # before they go with the folders
        from pytest_vperf.targets import leftover_machines

        leftover_machines.sweep()
    leftovers.sweep()
    with Run.begin() as run:
        try:
            yield run
        finally:
            run.close(keep=bool(leftovers.end_of_run(run.folder)))


@pytest.fixture(scope="session")
def _shared() -> list[Once[Any]]:
    """What many tests share and may die under one of them: each test begins with what lives."""
    return []


@pytest.fixture
def scope(_shared: list[Once[Any]]) -> Iterator[Scope]:
    """The owner of the targets that a test starts; they are ended with the test."""
    from pytest_vperf.targets.scope import Scope

    for each in _shared:
        each.renew()
    owner = Scope()
    try:
        yield owner
    finally:
        owner.close_since()


@pytest.fixture
def host(
    request: pytest.FixtureRequest,
    vperf_run: Run,
    scope: Scope,
    elsewhere: Callable[[], RemoteMachine] | None,
) -> Host | SshHost:
    """The machine that targets are started on, as a target; it runs the programs of the image that they have."""
    if elsewhere is not None:
        from pytest_vperf.targets.remote.host import host_of

        own = claims_session(request.config).settings.host_tools
        image = None if own else request.getfixturevalue("rootfs")
        return scope.own(host_of(elsewhere(), vperf_run, image))
    from pytest_vperf.targets.host import Host

    if claims_session(request.config).settings.host_tools:
        return scope.own(Host(vperf_run, tools="host"))
    return scope.own(Host(vperf_run, request.getfixturevalue("rootfs")))


@pytest.fixture(scope="session")
def engine(
    vperf_run: Run, elsewhere: Callable[[], RemoteMachine] | None, _shared: list[Once[Any]]
) -> Iterator[Callable[[], Engine]]:
    """The Docker engine, as a function: found or started when it is first called, stopped at the end."""
    from pytest_vperf.targets.base import TargetError
    from pytest_vperf.targets.engine import Engine
    from pytest_vperf.targets.once import Once

    def find() -> Engine:
        if elsewhere is None:
            return Engine.connect(vperf_run)
        from pytest_vperf.targets.remote.engine import connect

        return connect(elsewhere(), vperf_run)

    def end(dead: Engine) -> None:
        # What it leaves is found when the run ends; a claim is measured meanwhile.
        with contextlib.suppress(TargetError):
            dead.close()

    connect = Once(find, gone=lambda found: found.has_ended, end=end)
    _shared.append(connect)
    yield connect
    for found in connect.made:
        found.close()


@pytest.fixture(scope="session")
def rootfs_for(
    request: pytest.FixtureRequest, vperf_run: Run
) -> Callable[[bool], Callable[[], Rootfs]]:
    """Gives the image of tests that use tools, or of those that do not, as a function: made on first call.

    The small image is made in a moment, that with the tools in minutes: only who uses one waits for it.
    ``--container-image`` is both.
    """
    from pathlib import Path

    from pytest_vperf.targets import image
    from pytest_vperf.targets.once import Once

    reference = claims_session(request.config).settings.image

    def named() -> Rootfs:
        if reference is None:
            return image.default_rootfs()
        if reference.endswith(".tar"):
            return image.from_tar(Path(reference))
        found: Engine = request.getfixturevalue("engine")()
        return image.export(found.client, reference, labels=vperf_run.labels, where=found.url)

    def with_tools() -> Rootfs:
        from pytest_vperf import tools_image
        from pytest_vperf.reporting import notice

        return tools_image.make(functools.partial(notice.say, request.config))

    small = Once(named)
    tools = small if reference else Once(with_tools)
    return lambda uses_tools: tools if uses_tools else small


def uses_tools(request: pytest.FixtureRequest) -> bool:
    """Whether a test uses a tool: all of their fixtures are made with ``bench``."""
    return "bench" in request.fixturenames


@pytest.fixture
def rootfs(
    request: pytest.FixtureRequest, rootfs_for: Callable[[bool], Callable[[], Rootfs]]
) -> Callable[[], Rootfs]:
    """The image of this test's targets, the same for host, containers and pods, as a function."""
    make = rootfs_for(uses_tools(request))
    if uses_tools(request):
        prepare(make)
    return make


def prepare(make: Callable[[], object]) -> None:
    """Make what takes long before the claim's time runs; what goes wrong is said where it is used."""
    from contextlib import suppress

    from pytest_vperf.targets.base import TargetError

    with suppress(TargetError):
        make()


@pytest.fixture
def container_runtime(request: pytest.FixtureRequest) -> str:
    """The OCI runtime; a test that asks for containers runs once for each of ``--container-runtime``."""
    name: str = request.param
    return name


@pytest.fixture
def containers(
    request: pytest.FixtureRequest,
    container_runtime: str,
    engine: Callable[[], Engine],
    rootfs: Callable[[], Rootfs],
    vperf_run: Run,
    scope: Scope,
    pod_place: Place,
) -> Containers:
    """Starts containers: ``containers.start()``."""
    from pytest_vperf.targets import image
    from pytest_vperf.targets.container import Containers

    def imported(found: Engine) -> str:
        return image.import_into(found.client, rootfs())

    if uses_tools(request):
        prepare(lambda: imported(engine()))
    return Containers(
        engine,
        vperf_run,
        scope,
        runtime=container_runtime,
        rootfs=imported,
        tree=rootfs,
        mark=pod_place.mark,
    )


@pytest.fixture
def container(containers: Containers) -> Container:
    """A running container."""
    return containers.start()


# The fixtures of pods are in `pytest_vperf.pod_fixtures`.


def parametrizes_itself(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether a test has a ``parametrize`` mark with an argument of exactly this name."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        given = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        names = given.split(",") if isinstance(given, str) else given
        if name in (str(each).strip() for each in names):
            return True
    return False


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each runtime that was asked for, unless it names its own."""
    name = "container_runtime"
    if name not in metafunc.fixturenames:
        return
    if parametrizes_itself(metafunc, name):
        return
    runtimes = claims_session(metafunc.config).settings.runtimes
    metafunc.parametrize(name, runtimes, ids=runtimes, indirect=True)
