"""What is fuzzed: functions that take any bytes, as whoever is not trusted may send them to us.

Each returns, or raises one of the errors that are documented for what it calls. Anything else is a crash, as is an
input that takes `SECONDS`, or `MEGABYTES` of memory. `run.py` looks for such inputs, and `test_corpus.py` replays
those that were kept.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[2]
_HARNESS = str(ROOT / "tests" / "unit" / "workloads" / "harness")
if _HARNESS not in sys.path:
    sys.path.insert(0, _HARNESS)

import golden_cases  # noqa: E402

from pytest_vperf.commands import answers  # noqa: E402
from pytest_vperf.commands.claims import records  # noqa: E402
from pytest_vperf.commands.compare import output  # noqa: E402
from pytest_vperf.commands.compare.comparison import compare  # noqa: E402
from pytest_vperf.results.run import RunRecord  # noqa: E402
from pytest_vperf.results.store.choosing import Chosen  # noqa: E402
from pytest_vperf.results.store.files import FileStore  # noqa: E402
from pytest_vperf.results.store.model import StoredRun, StoreProblem  # noqa: E402
from pytest_vperf.targets.agent.target import AgentTarget  # noqa: E402
from pytest_vperf.targets.agent.wire import Frame, Type, Wire, WireError  # noqa: E402
from pytest_vperf.targets.base import CannotStart, Completed, TargetError  # noqa: E402
from pytest_vperf.targets.container.container import Demultiplexer, Files  # noqa: E402
from pytest_vperf.targets.guest.guest import GuestAgent, NotExecuted  # noqa: E402
from pytest_vperf.targets.image import elf  # noqa: E402
from pytest_vperf.targets.image.tar import Tree  # noqa: E402
from pytest_vperf.targets.libvirt.connection import Watches  # noqa: E402
from pytest_vperf.targets.libvirt.domain import Domain  # noqa: E402
from pytest_vperf.targets.libvirt.storage import labels_of  # noqa: E402
from pytest_vperf.targets.many import available  # noqa: E402
from pytest_vperf.targets.pod.qmp import Qmp, QmpError  # noqa: E402
from pytest_vperf.targets.process import Output as Printed  # noqa: E402
from pytest_vperf.targets.process import received  # noqa: E402
from pytest_vperf.targets.remote.pods import RemoteQemu  # noqa: E402
from pytest_vperf.targets.xen.domus import affinity, need_mode  # noqa: E402
from pytest_vperf.thresholds.profile import load_profile  # noqa: E402
from pytest_vperf.thresholds.text_file import ThresholdError  # noqa: E402
from pytest_vperf.workloads import bench  # noqa: E402
from pytest_vperf.workloads.base import Output, ParseError, release  # noqa: E402
from pytest_vperf.workloads.memory import ProcMem  # noqa: E402
from pytest_vperf.workloads.network_server import bound_ports  # noqa: E402
from pytest_vperf.workloads.processors import Look  # noqa: E402
from pytest_vperf.workloads.registry import WORKLOADS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CORPUS = Path(__file__).parent / "corpus"
#: One input may take so long, and so much memory.
SECONDS, MEGABYTES = 5, 1024
#: Seconds that QEMU may take: it answers at once, or what it says is never an answer.
_ANSWER = 0.05


@dataclass(frozen=True)
class FuzzTarget:
    """One way in.

    Attributes:
        name: as the driver takes it; of the folder in ``corpus``, too.
        run: takes an input.
        allowed: the errors that are documented; all else is a crash.
        seeds: what fuzzing begins with, beside the kept corpus.
    """

    name: str
    run: Callable[[bytes], None]
    allowed: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]] = tuple

    def inputs(self) -> Iterator[tuple[str, bytes]]:
        """The kept inputs and the seeds, by name."""
        for path in sorted((CORPUS / self.name).glob("*")):
            yield path.name, path.read_bytes()
        for number, data in enumerate(self.seeds()):
            yield f"seed {number}", data

    def feed(self, data: bytes) -> None:
        """Run one input; an allowed error is well."""
        with contextlib.suppress(*self.allowed):
            self.run(data)


def _in_file(name: str, use: Callable[[Path], object]) -> Callable[[bytes], None]:
    """A target that reads a file: in memory, where there is such a folder, since it is written a million times."""
    shm = Path("/dev/shm")

    def run(data: bytes) -> None:
        folder = Path(tempfile.mkdtemp(prefix="vperf-fuzz-", dir=shm if shm.is_dir() else None))
        try:
            (folder / name).write_bytes(data)
            use(folder / name)
        finally:
            shutil.rmtree(folder)

    return run


def _agent_wire(data: bytes) -> None:
    """Frames of a machine's agent, as one command gets them; the first byte says how they are cut."""
    ours, theirs = socket.socketpair()
    step = 1 + (data[0] if data else 0)
    waiting = [data[at : at + step] for at in range(1, len(data), step)][::-1]
    wire = Wire(ours, ahead=1 << 15)

    def wait(_: float) -> Any:
        if not waiting:
            theirs.close()
        else:
            theirs.sendall(waiting.pop())
        return wire.receive()

    machine: Any = SimpleNamespace(name="pod", wire=wire, wait=wait, last_words=str)
    with ours, theirs:
        AgentTarget(machine, SimpleNamespace(), {}).run(["true"], timeout=2.0)  # type: ignore[arg-type]


def _agent_wire_seeds() -> Iterator[bytes]:
    number = (3).to_bytes(4, "little")
    for step in (0, 255):
        for kind, payload in ((Type.EXIT, number), (Type.FAILED, number + b"true")):
            said = [
                Frame(Type.OUTPUT, 2, b"out"),
                Frame(Type.ERRORS, 2, b"err"),
                Frame(Type.TAKEN, 0, number),
            ]
            yield bytes([step]) + b"".join(
                each.encode() for each in (*said, Frame(kind, 2, payload))
            )


def _qmp(data: bytes) -> None:
    """What QEMU says on its control socket: first a greeting, and after a NUL byte what follows a command."""
    ours, theirs = socket.socketpair()
    turns = data.split(b"\0")

    def speak() -> None:
        with contextlib.suppress(OSError):
            for turn in turns:
                theirs.sendall(turn)
                if not theirs.recv(1 << 16):
                    return
        with contextlib.suppress(OSError):
            theirs.shutdown(socket.SHUT_RDWR)

    qemu = threading.Thread(target=speak, daemon=True)
    qmp = Qmp(ours)
    with theirs:
        qemu.start()
        try:
            qmp.connect(_ANSWER)
            qmp.field("query-kvm", "enabled", bool, timeout=_ANSWER)
            qmp.execute_until("DEVICE_DELETED", "disk", "device_del", _ANSWER, id="disk")
        finally:
            qmp.close()
            qemu.join(1.0)


def _qmp_seeds() -> Iterator[bytes]:
    greeting = {
        "QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}}, "capabilities": []}
    }
    stamp = {"seconds": 1, "microseconds": 2}
    gone = {"event": "DEVICE_DELETED", "data": {"device": "disk"}, "timestamp": stamp}
    values: tuple[object, ...] = ({"enabled": True, "present": True}, {"enabled": 1}, {}, [], 7)
    for value in values:
        said = [
            greeting,
            {"return": {}},  # of qmp_capabilities, which has no id
            {"return": value, "id": "__qmp#00000"},
            {"return": {}, "id": "__qmp#00001"},
        ]
        yield b"\0".join(json.dumps(each).encode() + b"\r\n" for each in said)
        yield b"\0".join(json.dumps(each).encode() + b"\r\n" for each in (*said, gone))
    yield json.dumps(greeting).encode() + b'\n{"error": {"class": "GenericError", "desc": "no"}}\n'


class _LibvirtError(Exception):
    """libvirt's error, as its module has it."""

    def get_error_message(self) -> str:
        return "Guest agent is not responding"

    def get_error_code(self) -> int:
        return 86

    def get_error_domain(self) -> int:
        return 10


@cache
def _libvirt() -> ModuleType:
    """Stands in for the library, which is not needed for what a daemon says."""
    made = ModuleType("libvirt")
    names = "NO_CONNECT INVALID_CONN SYSTEM_ERROR RPC NO_DOMAIN OPERATION_INVALID INTERNAL_ERROR"
    for number, name in enumerate(names.split(), 1000):
        setattr(made, f"VIR_ERR_{name}", number)
    made.__dict__.update(
        libvirtError=_LibvirtError,
        registerErrorHandler=lambda *_: None,
        VIR_ERR_AGENT_UNRESPONSIVE=86,
        VIR_FROM_RPC=7,
        VIR_FROM_REMOTE=13,
        VIR_DOMAIN_EVENT_ID_LIFECYCLE=0,
        VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE=18,
        VIR_DOMAIN_EVENT_STOPPED=5,
        VIR_DOMAIN_EVENT_CRASHED=8,
        VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED=1,
    )
    return made


@contextlib.contextmanager
def _as_libvirt(**qemu: Any) -> Iterator[ModuleType]:
    """Have imports find the stand-in meanwhile."""
    with_qemu = ModuleType("libvirt_qemu")
    with_qemu.__dict__.update(qemu)
    before = {name: sys.modules.get(name) for name in ("libvirt", "libvirt_qemu")}
    sys.modules["libvirt"], sys.modules["libvirt_qemu"] = _libvirt(), with_qemu
    try:
        yield _libvirt()
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _guest_agent(data: bytes) -> None:
    """What a guest's own agent answers, a line for each question; then it is silent."""
    answers = data.decode("utf-8", "replace").split("\n")[::-1]

    def command(*_: object) -> str:
        if not answers:
            raise _LibvirtError
        return answers.pop()

    domain: Any = SimpleNamespace(
        name="guest",
        handle=None,
        ended=False,
        why_gone=str,
        why_stopped=str,
        last_words=str,
        watch=SimpleNamespace(agent=1.0),
        pause=lambda _: None,
    )
    with _as_libvirt(qemuAgentCommand=command) as libvirt:
        agent = GuestAgent(SimpleNamespace(libvirt=libvirt, is_alive=True), domain)  # type: ignore[arg-type]
        for ask in (
            lambda: agent.wait(agent.start(["true"], {}, b""), time.perf_counter() + 1.0),
            lambda: agent.write("/x", iter([b"content"])),
            lambda: sum(map(len, agent.read("/x"))),
        ):
            with contextlib.suppress(TargetError, NotExecuted):
                ask()


def _guest_agent_seeds() -> Iterator[bytes]:
    file = ['{"return": 1000}', '{"return": {"count": 7, "eof": false}}', '{"return": {}}']
    read = '{"return": {"count": 2, "buf-b64": "aGk=", "eof": %s}}'
    ends = (
        '{"return": {"exited": true, "exitcode": 0, "out-data": "aGk=", "err-data": "aGk="}}',
        '{"return": {"exited": true, "signal": 9}}',
        '{"return": {"exited": true, "exitcode": 1, "out-data": "aGk=", "out-truncated": true}}',
    )
    for end in ends:
        lines = ['{"return": {"pid": 77}}', '{"return": {"exited": false}}', end, *file]
        lines += [file[0], read % "false", read % "true", file[2]]
        yield "\n".join(lines).encode()


def _libvirt_xml(data: bytes) -> None:
    """What a daemon describes: a host, a machine, a machine's labels."""
    text = data.decode("utf-8", "replace")
    handle = SimpleNamespace(getCapabilities=lambda: text, XMLDesc=lambda: text)
    with _as_libvirt() as libvirt:
        watches = SimpleNamespace(add=lambda _: None)
        connection: Any = SimpleNamespace(
            libvirt=libvirt, handle=handle, shown="xen:///system", watches=watches
        )
        labels_of(text)
        domain = Domain(connection, "vperf-1", "guest")
        domain.handle = handle
        for ask in (
            lambda: need_mode(connection, "pv"),
            lambda: need_mode(connection, "pvh"),
            lambda: domain.port,
        ):
            with contextlib.suppress(TargetError):
                ask()


def _libvirt_xml_seeds() -> Iterator[bytes]:
    yield (
        b"<capabilities><guest><arch><machine>xenpv</machine><machine>xenpvh</machine></arch></guest>"
        b"</capabilities>"
    )
    yield (
        b"<domain type='kvm'><name>vperf-1</name><metadata><v:run xmlns:v='urn:pytest-vperf' id='1'/>"
        b"</metadata><devices><interface type='network'><target dev='vnet0'/></interface></devices></domain>"
    )


def _libvirt_events(data: bytes) -> None:
    """What a daemon pushes, three numbers for each event: which callback, event, detail."""
    told: list[Callable[..., None]] = []

    def register(_: object, __: int, callback: Callable[..., None], ___: object) -> None:
        told.append(callback)

    handle = SimpleNamespace(
        domainEventRegisterAny=register,
        registerCloseCallback=lambda callback, _: told.append(callback),
    )
    watches = Watches(_libvirt(), handle)
    watch = watches.add("vperf-1")
    life, agent, closed = told
    for at in range(0, len(data) - 2, 3):
        which, event, detail = data[at : at + 3]
        domain = SimpleNamespace(name=lambda which=which: "vperf-1" if which & 4 else "another")
        event, detail = event - 8, detail - 8
        if which % 3 == 0:
            life(None, domain, event, detail, None)
        elif which % 3 == 1:
            agent(None, domain, event, detail, None)
        else:
            closed(None, event, None)
        assert isinstance(watch.ended, str)
        assert isinstance(watch.lost, str)


def _tar(path: Path) -> None:
    """An image: its tree, what is in it, and the tree unpacked."""
    tree = Tree(path)
    for folder in ("/", "/bin", "/etc"):
        for name in tree.names(folder):
            with contextlib.suppress(FileNotFoundError):
                elf.read_elf(tree.read(f"{folder}/{name}"))
    (path.parent / "root").mkdir()
    with contextlib.suppress(OSError):  # as `tree.unpacked` says it in words
        tree.unpack(path.parent / "root")


def _tar_seeds() -> Iterator[bytes]:
    import io
    import tarfile

    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:", format=form) as archive:
            for name, kind, link in (
                ("bin", tarfile.DIRTYPE, ""),
                ("bin/sh", tarfile.REGTYPE, ""),
                ("bin/ash", tarfile.LNKTYPE, "bin/sh"),
                ("lib", tarfile.SYMTYPE, "/usr/lib"),
                ("e" * 120, tarfile.REGTYPE, ""),
            ):
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = kind, link
                entry.size = 3 if kind == tarfile.REGTYPE else 0
                archive.addfile(entry, io.BytesIO(b"abc"))
        yield packed.getvalue().rstrip(b"\0") + bytes(1024)


def _fetched(data: bytes) -> None:
    """What ``tar`` of an image sends for a file that is fetched from a container."""
    files: Any = SimpleNamespace(_target="container runc")
    with tempfile.TemporaryDirectory(prefix="vperf-fuzz-") as folder:
        with tempfile.TemporaryFile(dir=folder) as archive:
            archive.write(data)
            with received(Path(folder, "got"), "container runc") as draft:
                Files._unpack(files, archive, "/file", draft, 1 << 20)
        assert Path(folder, "got").stat().st_mode & 0o7022 == 0


def _engine_stream(data: bytes) -> None:
    """What an engine sends of a command's output."""
    printed = Printed(1 << 16)
    frames = Demultiplexer(printed)
    for start in range(0, len(data), 7):
        frames.feed(data[start : start + 7])
    assert len(printed.stdout) + len(printed.stderr) <= 1 << 16


def _engine_stream_seeds() -> Iterator[bytes]:
    yield b"\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\3err"
    yield b"\1\0\0\0\0\0\0\0\2\0\0\0\xff\xff\xff\xfferr"


def _elf(data: bytes) -> None:
    elf.read_elf(data)


def _elf_seeds() -> Iterator[bytes]:
    import struct

    loader = b"/lib64/ld-linux-x86-64.so.2\0"
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    yield head + struct.pack("<IIQQQQQQ", 3, 4, 120, 120, 120, len(loader), len(loader), 1) + loader


def _record(path: Path) -> None:
    """A record or a journal; after a NUL byte the journal that is beside it."""
    first, found, second = path.read_bytes().partition(b"\0")
    path.write_bytes(first)
    if found:
        path.with_name("record.json.journal-0123456789ab").write_bytes(second)
    records.read(path)


def _record_seeds() -> Iterator[bytes]:
    from pytest_vperf.results.record import unmeasured
    from pytest_vperf.results.run import RunRecord

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "record.json"
        run = RunRecord(path)
        run.begin()
        made = [
            unmeasured(
                claim,
                "no engine",
                target="",
                nodeid="t.py::t",
                started_at="2026-01-01T00:00:00+00:00",
                budget=1.0,
                seed=0,
            )
            for claim in ("a.b", "a.c", "a.d")
        ]
        for each in made[1:]:
            run.begun(each)
        run.extend(made[:2])
        head = json.loads(path.read_bytes())
        journal = path.with_name(head["unfinished"]).read_bytes()
        head["unfinished"] = "record.json.journal-0123456789ab"
        yield json.dumps(head).encode() + b"\0" + journal
        yield journal
        lines = [json.loads(line) for line in journal.splitlines()]
        claims = [line["claim"] for line in lines if "claim" in line]
        yield json.dumps({**lines[0]["journal"], "claims": claims}).encode()
        one = ",\n".join(json.dumps(each) for each in claims)
        start = json.dumps(lines[0]["journal"]).removesuffix("}")
        yield f'{start}, "claims": [\n{one}\n]}}\n'.encode()


def _stored_run(path: Path) -> None:
    """A file of a store: what is asked of it, and its record, as ``vperf compare`` reads it."""
    store = FileStore(path.parent)
    found = store.runs()
    assert len(found) + len(store.damaged) == 1
    assert store.runs(claim="a.b", most=1) == [] or found
    assert b"".join(store.document("0123456789ab")) == path.read_bytes()
    if found:
        chosen = Chosen("main", tuple(found))
        compared = compare(chosen, chosen, tolerance=0.02)
        json.loads(output.document(compared, 0.02, 0))
        output.text(compared, 0.02, width=80, colour=True)
        output.markdown(compared, 0.02)


def _stored_run_seeds() -> Iterator[bytes]:
    from pytest_vperf.results.levels import Level

    with tempfile.TemporaryDirectory() as name:
        store = FileStore(Path(name))
        levels = (
            Level("a.b", "", 12.5, "ms", "lower", 20),
            Level("a.b", "head", 3e8, "B/s", "higher", 8),
        )
        run = StoredRun(
            mark="0123456789ab",
            started="2026-01-01T00:00:00.000+00:00",
            name="main",
            commit="0" * 40,
            branch="main",
            fingerprint={"cpu_model": "any"},
            levels=levels,
        )
        record = RunRecord(started=run.started, fingerprint=run.fingerprint, mark=run.mark)
        store.save(run, record.document(run.as_key()))
        yield next(Path(name).iterdir()).read_bytes()


def _comments(data: bytes) -> None:
    """What a host of pull requests answers for its comments, and for the account of a token."""
    for read in (answers.comments, answers.account):
        with contextlib.suppress(answers.NotUnderstood):
            read(data)


def _comments_seeds() -> Iterator[bytes]:
    yield b'[{"id": 7, "body": "<!-- pytest-vperf: gate -->", "user": {"login": "me"}, "url": "x"}]'
    yield b'[{"id": 7, "body": null, "author": {"id": 3, "username": "me"}, "user": null}]'
    yield b'{"login": "me", "id": 1}'


@cache
def _cases() -> dict[str, list[golden_cases.Case]]:
    found: dict[str, list[golden_cases.Case]] = {}
    for case in golden_cases.cases():
        found.setdefault(case.workload, []).append(case)
    return found


def _parser(workload: str) -> Callable[[bytes], None]:
    """What a tool printed; the first byte says with which parameters and version it ran, a NUL that errors follow."""

    def run(data: bytes) -> None:
        cases = _cases()[workload]
        case = cases[(data[0] if data else 0) % len(cases)]
        stdout, _, stderr = data[1:].partition(b"\0")
        output = Output(
            stdout.decode("utf-8", "replace"),
            stderr.decode("utf-8", "replace"),
            case.output.version,
        )
        for read in (
            case.made.parse,
            case.made.version_of,
            getattr(case.made, "parse_server", case.made.version_of),
        ):
            with contextlib.suppress(ParseError):
                for name, figure in golden_cases.figures(read(output)):
                    assert 0 <= figure < float("inf"), f"{name} is {figure}"

    return run


def _parser_seeds(workload: str) -> Callable[[], Iterator[bytes]]:
    def seeds() -> Iterator[bytes]:
        for number, case in enumerate(_cases()[workload]):
            yield (
                bytes([number]) + case.output.stdout.encode() + b"\0" + case.output.stderr.encode()
            )

    return seeds


def _processors(data: bytes) -> None:
    Look.parse(Output(data.decode("utf-8", "replace")))


def _processors_seeds() -> Iterator[bytes]:
    yield (
        b"clock\n12.5 1.0\ncpu0 1 2 3 4 5 6 7\ntimes\n/proc/7/task/7/schedstat:5 6 7\n"
        b"names\n7 (qemu) S 1\ncommands\n/proc/7/cmdline:qemu\0-name\nend\n"
    )


def _words(data: bytes) -> None:
    """What short commands print in a machine, or on its host: its clock, its memory, versions, pinning, usage."""
    done = Completed(("cat",), 0, data, b"", 0.1)
    machine: Any = SimpleNamespace(name="domu pv", run=lambda *_, **__: done)
    qemu: Any = SimpleNamespace(pid=1, _start=SimpleNamespace(machine=SimpleNamespace(ssh=machine)))
    with contextlib.suppress(TargetError):
        assert available(machine) >= 0
    with contextlib.suppress(TargetError):
        ProcMem().pss(7, on=machine)
    with contextlib.suppress(TargetError):
        assert bench._read(machine)[0] >= 0
    with contextlib.suppress(ValueError):  # documented, and of our own words
        assert all(len(cpus) <= 1 << 17 for cpus in affinity(done.text).values())
    with contextlib.suppress(TargetError):
        assert RemoteQemu.usage(qemu).memory is not None
    release(done.text)
    bound_ports(done.text)


def _words_seeds() -> Iterator[bytes]:
    yield b"1764180000123456789\n"
    yield b"MemTotal:       24000000 kB\nMemAvailable:   22000000 kB\n"
    yield b"7f0000-7fffff ---p 00000000 00:00 0 [rollup]\nRss: 9000 kB\nPss:  4242 kB\n"
    yield b"vperf-1   3     0    1   -b-       1.4  0-1 / all\nmax_cpu_id             : 7\n"
    yield b"vperf-1   3     0    -   --p       1.4  all / all\nmax_cpu_id             : 7\n"
    yield b"1.0.20\n"
    yield b"   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n"
    yield (
        b"4711 (qemu (x) 1) S 1 4711 4711 0 -1 4194560 9 0 0 0 120 30 0 0 20 0 4 0 99 800000 2000\n"
        b"195000 2000 900 1 0 1000 0\n100\n4096\n"
    )


TARGETS: dict[str, FuzzTarget] = {
    target.name: target
    for target in (
        FuzzTarget("agent-wire", _agent_wire, (TargetError, WireError), _agent_wire_seeds),
        FuzzTarget("qmp", _qmp, (QmpError,), _qmp_seeds),
        FuzzTarget("guest-agent", _guest_agent, (), _guest_agent_seeds),
        FuzzTarget("libvirt-xml", _libvirt_xml, (), _libvirt_xml_seeds),
        FuzzTarget("libvirt-events", _libvirt_events, (), lambda: [bytes(range(9)) * 4]),
        FuzzTarget(
            "thresholds",
            _in_file("type1.yaml", load_profile),
            (ThresholdError,),
            lambda: [path.read_bytes() for path in sorted((ROOT / "thresholds").glob("*.yaml"))],
        ),
        FuzzTarget(
            "records", _in_file("record.json", _record), (records.RecordError,), _record_seeds
        ),
        FuzzTarget(
            "stored-runs",
            _in_file("20260101T000000.000Z-0123456789ab.json", _stored_run),
            (StoreProblem,),
            _stored_run_seeds,
        ),
        FuzzTarget("comments", _comments, (), _comments_seeds),
        FuzzTarget("tar", _in_file("image.tar", _tar), (CannotStart,), _tar_seeds),
        FuzzTarget("fetched", _fetched, (TargetError,), _tar_seeds),
        FuzzTarget("engine-stream", _engine_stream, (), _engine_stream_seeds),
        FuzzTarget("elf", _elf, (), _elf_seeds),
        FuzzTarget("words-of-machines", _words, (), _words_seeds),
        FuzzTarget("parse-processors", _processors, (ParseError,), _processors_seeds),
        *(
            FuzzTarget(f"parse-{name}", _parser(name), (), _parser_seeds(name))
            for name in WORKLOADS
            if name in _cases()
        ),
    )
}
