"""``vperf doctor --fleet``: what is usable on each machine of a fleet. All are asked at once; nothing is measured."""

from __future__ import annotations

import json as json_lines
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from pytest_vperf import foreign_text
from pytest_vperf.commands import doctor
from pytest_vperf.fleet import survey
from pytest_vperf.fleet.engines import installed_engines
from pytest_vperf.fleet.file import read_fleet
from pytest_vperf.fleet.links import Links
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.reporting.console import print_table, say, tell, waiting_line
from pytest_vperf.results.identity import named, within_types
from pytest_vperf.thresholds.text_file import ThresholdError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_vperf.fleet.engines import Engine, FleetMachine
    from pytest_vperf.fleet.file import FleetFile
    from pytest_vperf.fleet.links import Link

#: What a fleet is asked for where nothing is named.
_USUAL = ("container", "pod")
#: Seconds for the doctors of all machines: a first one builds images and starts pods.
_LIMIT = 1800.0
_CHECKS = TypeAdapter(list[Readiness])


@dataclass
class Asked:
    """What a machine answered.

    Attributes:
        machine: which.
        wrong: why it cannot run tests, each with what is to be done; empty if it can.
        python: the version of its interpreter; empty if it is not known.
        vperf: the version of pytest-vperf there, likewise.
        facts: its type, fingerprint, and the versions of what starts targets; empty if they are not known.
        checks: what its doctor said.
    """

    machine: FleetMachine
    wrong: list[str] = field(default_factory=list)
    python: str = ""
    vperf: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    checks: list[Readiness] = field(default_factory=list)


def run(
    path: Path, names: Sequence[str] = (), *, json: bool = False, runtimes: Sequence[str] = ()
) -> int:
    """Ask all machines, print the answers, and return the exit status.

    Args:
        path: the file of the fleet.
        names: the names to check, as for `pytest_vperf.commands.doctor.run`; containers and pods if empty.
        json: print JSON instead of a table.
        runtimes: OCI runtimes to check.

    Returns:
        0 if the machines can run tests, and, with names, all are usable on each of them; without, containers or pods.
        Else 1; 2 for an unknown name or a mistake in the file.
    """
    known = [name for check in doctor.all_checks(None, runtimes) for name in check.names]
    for name in names:
        if not doctor.full_names(name, known, runtimes or (doctor.DEFAULT_RUNTIME,)):
            return doctor.run([name], runtimes=runtimes)  # it says what there is
    try:
        engines = installed_engines()
    except Exception as error:  # whatever a package may raise
        say("vperf doctor", f"a package cannot be imported: {type(error).__name__}: {error}")
        return doctor.USAGE_ERROR
    try:
        file = read_fleet(path, {name: each.keys for name, each in engines.items()})
        engine: Engine = engines[file.engine].make(file)
        machines = engine.machines()
        gone = engine.gone()
    except ThresholdError as error:
        say("vperf doctor", str(error))
        return doctor.USAGE_ERROR
    words = [f"--container-runtime={','.join(runtimes)}"] if runtimes else []
    asked = {each: Asked(each) for each in machines}
    for each in machines:
        if each.name in gone:
            asked[each].wrong.append(f"it is gone: {gone[each.name]}")
    with waiting_line(f"asking {named([each.name for each in machines])} …"):
        _ask(file, engine, asked, [*words, *(names or _USUAL)])
    wanted = list(names)
    found = list(asked.values())
    well = all(not each.wrong and doctor.is_well(each.checks, wanted) for each in found)
    if json:
        tell(
            foreign_text.to_json(
                {"usable": well, "machines": [_plain(each) for each in found]}, indent=1
            )
        )
    else:
        _print(found)
    return doctor.USABLE if well else doctor.NOT_USABLE


def _ask(
    file: FleetFile, engine: Engine, asked: Mapping[FleetMachine, Asked], words: Sequence[str]
) -> None:
    links = Links(engine, [file.python, "-m", survey.AGENT])
    order = f"{json_lines.dumps({'doctor': list(words)})}\n".encode()
    try:
        for machine, answer in asked.items():
            if answer.wrong:
                continue
            try:
                links.start(machine)
            except OSError as error:
                answer.wrong.append(f"the engine {file.engine} cannot start anything: {error}")
        began = time.monotonic()
        while links.open and time.monotonic() - began < _LIMIT:
            for link, said in links.turn(0.2):
                _take(file, engine, links, link, asked[link.machine], said, order)
            if time.monotonic() - links.greeted > survey.LIMIT:
                for link in [each for each in links.open if each.hello is None]:
                    why = (
                        f"{file.engine} queues what runs there" if link.waits else "no word from it"
                    )
                    asked[link.machine].wrong.append(f"it is busy: {why}" if link.waits else why)
                    links.close(link)
        for link in links.open:
            asked[link.machine].wrong.append(f"its doctor took more than {_LIMIT:g} s")
    finally:
        for link in tuple(links.open):
            links.close(link)


def _take(
    file: FleetFile,
    engine: Engine,
    links: Links,
    link: Link,
    answer: Asked,
    said: Any,
    order: bytes,
) -> None:
    if isinstance(said, str):
        if link.ended is None:
            wrong = None
            if link.hello is None:
                wrong = survey.mistake(engine, file.python, link, said)
            answer.wrong.append(
                str(file.wrong(wrong.message, *wrong.path)) if wrong else f"it is lost: {said}"
            )
    elif said.get("vperf") == "hello":
        answer.vperf = str(said.get("version", ""))
        answer.python = ".".join(
            str(each) for each in said.get("worker", {}).get("version_info", ())
        )
        answer.wrong += survey.unfit(said)
        if answer.wrong:
            link.ended = {}
            links.close(link)
            return
        answer.facts = {"type": link.machine.type, **said["fingerprint"], **said["software"]}
        links.send(link, order)
    elif said.get("vperf") == "end":
        link.ended = said
        try:
            answer.checks = _CHECKS.validate_python(json_lines.loads(said["answers"])["checks"])
        except (ValueError, ValidationError, KeyError, TypeError):
            why = (
                foreign_text.short(str(said.get("said", ""))) or f"exit status {said.get('status')}"
            )
            answer.wrong.append(f"its doctor failed: {why}")
        links.dismiss(link)


def _plain(answer: Asked) -> dict[str, Any]:
    return {
        "name": answer.machine.name,
        "type": answer.machine.type,
        "python": answer.python,
        "vperf": answer.vperf,
        "wrong": answer.wrong,
        "facts": dict(answer.facts),
        "checks": [asdict(each) for each in answer.checks],
    }


def _print(answers: Sequence[Asked]) -> None:
    from rich.text import Text

    every = (check.name for each in answers for check in each.checks)
    names = {name: foreign_text.line(name) for name in every}
    rows: list[tuple[str | Text, ...]] = []
    for each in answers:
        own = {check.name: check for check in each.checks}
        cells = [Text("wrong", "red")] if each.wrong else [Text("ready", "green")]
        for name in names:
            known = own.get(name)
            cells.append(
                Text("?")
                if known is None
                else Text("yes", "green")
                if known.usable
                else Text("no", "red")
            )
        machine = foreign_text.line(each.machine.name)
        rows.append((machine, each.machine.type, each.python or "?", each.vperf or "?", *cells))
    print_table(("machine", "type", "Python", "vperf", "", *names.values()), rows)
    tell()
    for each in answers:
        for why in each.wrong:
            tell(f"{each.machine.name}: {foreign_text.line(why)}")
        for check in each.checks:
            if not check.usable:
                mend = f"; to mend it: {check.remedy}" if check.remedy else ""
                tell(foreign_text.line(f"{each.machine.name}: {check.name}: {check.why}{mend}"))
    for line in within_types({each.machine.name: each.facts for each in answers if each.facts}):
        tell(foreign_text.line(f"machines differ: {line}"))
