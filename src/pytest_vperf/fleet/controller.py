"""The run that has a fleet: it collects the tests, has the machines run them, and logs their reports as its own."""

from __future__ import annotations

import gc
import resource
import time
import warnings
from sys import intern
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf import foreign_text
from pytest_vperf.fleet import survey
from pytest_vperf.fleet.chosen import choose
from pytest_vperf.fleet.links import Links
from pytest_vperf.fleet.order import Orders
from pytest_vperf.fleet.plan import Shard, made_good_on, plan
from pytest_vperf.fleet.planner import Planner
from pytest_vperf.fleet.project import Project
from pytest_vperf.pytest_internals import count_apart, keep_failed, show_no_files
from pytest_vperf.reporting.summary import say_notice
from pytest_vperf.results.identity import named, within_types
from pytest_vperf.run.stash import claims_session
from pytest_vperf.run.workers import Lost, take_note
from pytest_vperf.thresholds.text_file import Problem, ThresholdError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_vperf.claims.baseline import Baseline
    from pytest_vperf.fleet.chosen import Chosen
    from pytest_vperf.fleet.engines import FleetMachine
    from pytest_vperf.fleet.links import Link

#: Seconds between two looks at what an engine that queues says of its machines.
_LOOK = 10.0
#: Seconds that an engine may not answer before what it has queued is lost.
_DEAF = 60.0
#: Seconds for connections to end by themselves, when all has been said.
_PARTING = 3.0
#: Seconds for all shards to end in order when the run is stopped.
_LIMIT = 120.0
#: After so many tests, what came is set aside for Python's collector.
_ASIDE = 500
#: What the reports of a test say alike, as a rule.
_ALIKE = ("nodeid", "_id", "location", "keywords", "sections")
#: Open files of a run, and of each connection: its three streams, and as many while it is made.
_FILES, _FILES_A_MACHINE = 512, 6


class Node:
    """What a report says of its machine, as pytest-xdist has it: pytest's terminal and JUnit know it by that.

    Args:
        machine: which.
        config: of the run.
    """

    def __init__(self, machine: FleetMachine, config: pytest.Config) -> None:
        self.machine, self.config = machine, config
        self.gateway = SimpleNamespace(id=machine.name)
        self.workeroutput: Mapping[str, Any] = {}
        self.vperf_machine = {"name": machine.name}
        #: As a store knows it.
        self.known_as = {"machine": machine.name}
        #: Pytest prints it above a failure: "[h1] linux -- Python 3.11.7 /usr/bin/python3"; until it is heard of:
        self.workerinfo = {
            "id": machine.name,
            "version_info": ("?", "?", "?"),
            "sysplatform": "unknown",
            "executable": "",
        }


class Fleet:
    """The fleet of a run: a plug-in.

    Args:
        config: of the run.
        fleet: its machines.
    """

    def __init__(self, config: pytest.Config, fleet: Chosen) -> None:
        self._config = config
        self._session = claims_session(config)
        self._file, self._engine, self._ahead = fleet.file, fleet.engine, fleet.ahead
        self.machines, self._each = fleet.machines, fleet.each
        self._links = Links(self._engine, [self._file.python, "-m", survey.AGENT])
        self._nodes = {machine: Node(machine, config) for machine in self.machines}
        self._looked = self._answered = 0.0
        self._facts: dict[FleetMachine, dict[str, Any]] = {}
        self._known = True
        self._lost: dict[FleetMachine, str] = {}
        self._queue: list[Shard] = []
        self._reports: dict[tuple[FleetMachine, str], list[Any]] = {}
        self._orders = Orders(config, None, (), len(self.machines))
        self._failed: set[str] = set()
        self._tests = self._aside = 0
        self._project: Project | None = None

    # Before anything is measured.

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Reach all machines, while the tests are collected."""
        if self._config.getoption("collectonly"):
            return
        try:
            self._look()
            self._answered = self._looked
        except ThresholdError as error:
            raise pytest.UsageError(f"--claims-fleet: {error}") from None
        for machine in (each for each in self.machines if each not in self._lost):
            try:
                self._links.start(machine)
            except OSError as error:
                raise pytest.UsageError(
                    f"--claims-fleet: the engine {self._file.engine} cannot start anything: {error}"
                ) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """See what the machines are.

        Raises:
            pytest.UsageError: one cannot run a shard; a line for each that cannot.
        """
        if self._config.getoption("collectonly") or not session.items:
            return
        if self._file.sent:
            try:
                self._project = Project(self._config, self._file, session.items)
            except ThresholdError as error:
                raise pytest.UsageError(f"--claims-fleet: {error}") from None
        began = time.monotonic()
        wrong: list[Problem] = []
        while (
            (waiting := self._unheard())
            and not all(each.waits for each in waiting)
            and time.monotonic() < max(began, self._links.greeted) + survey.LIMIT
        ):
            for link, said in self._links.turn(0.1):
                if isinstance(said, str):
                    wrong += self._unreachable(link, said)
                elif isinstance(said, dict) and said.get("vperf") == "hello":
                    wrong += self._unfit(link, said)
        for link in (each for each in waiting if not each.waits):
            self._links.close(link)
            self._lost[link.machine] = f"no word from it for {survey.LIMIT:g} s"
        if wrong:
            raise pytest.UsageError(f"--claims-fleet: {self._file.all_wrong(wrong)}")

    @property
    def _baseline(self) -> Baseline | None:
        return self._session.baseline if self._session.claiming else None

    def _check_baseline(self) -> None:
        """Make sure that a run of the baseline was on a machine of the fleet.

        Raises:
            pytest.UsageError: none was.
        """
        baseline, known = (
            self._baseline,
            [self._nodes[m].known_as for m in self.machines if m in self._facts],
        )
        if baseline is not None and known and not any(map(baseline.has, known)):
            word, names = baseline.word, named([each["machine"] for each in known])
            raise pytest.UsageError(
                f"--baseline: no run of {word} is of one of the machines {names}"
            )

    def _look(self) -> None:
        """Ask the engine which machines are gone."""
        self._looked = time.monotonic()
        gone = self._engine.gone()
        self._lost.update((each, gone[each.name]) for each in self.machines if each.name in gone)

    def _look_again(self) -> None:
        """The same in a run that goes on: an engine may not answer for a while, and then nothing in its queue waits
        for it any more."""
        try:
            self._look()
            self._answered = self._looked
        except ThresholdError as error:
            if self._looked - self._answered > _DEAF:
                why = f"no answer for {_DEAF:g} s: {error}"
                self._lost.update((link.machine, why) for link in self._links.open if link.waits)

    def _unheard(self) -> list[Link]:
        return [link for link in self._links.open if link.hello is None]

    def _unreachable(self, link: Link, why: str) -> list[Problem]:
        wrong = survey.mistake(self._engine, self._file.python, link, why)
        if wrong is None:
            self._lost[link.machine] = why
        return [] if wrong is None else [wrong]

    def _unfit(self, link: Link, hello: Mapping[str, Any]) -> list[Problem]:
        machine = link.machine
        found = [f"{machine.name}: {each}" for each in survey.unfit(hello)]
        if not found:  # another version's word may be another
            self._know(machine, hello)
        return [Problem(machine.keys, each) for each in found]

    def _know(self, machine: FleetMachine, hello: Mapping[str, Any]) -> None:
        self._facts[machine] = dict(hello)
        self._known = False
        node = self._nodes[machine]
        node.vperf_machine = {"name": machine.name, **hello["fingerprint"]}
        node.known_as = {**hello["fingerprint"], "machine": machine.name}
        node.workerinfo.update(hello["worker"])

    def _note_machines(self) -> None:
        """Have the record say what is known of the machines, if it does not."""
        if not self._known:
            self._known = True
            self._session.run.machines = {
                each.name: {"type": each.type, **facts["fingerprint"], **facts["software"]}
                for each in self.machines
                if (facts := self._facts.get(each)) is not None
            }

    def pytest_report_collectionfinish(self) -> list[str]:
        """The header: machines, what is not there, and what differs within a type."""
        if not self._links.open and not self._lost:
            return []  # there is nothing to run
        self._note_machines()
        types: dict[str, list[FleetMachine]] = {}
        for machine in self.machines:
            types.setdefault(machine.type, []).append(machine)
        told = "; ".join(
            f"{type_}: {named([each.name for each in own])}" for type_, own in types.items()
        )
        how = "every test on every machine" if self._each else "every test on one machine of a type"
        lines = [f"fleet: {self._file.engine}, {told}; {how}"]
        if waiting := [each.machine for each in self._links.open if each.waits]:
            lines.append(
                f"fleet: {named([each.name for each in waiting])} busy: {self._file.engine} queues what runs there"
            )
        lines += (f"fleet: {each.name} is lost: {why}" for each, why in self._lost.items())
        if (baseline := self._baseline) is not None:
            lines += (
                f"fleet: {each.name}: no run of {baseline.word} is of it"
                for each in self.machines
                if each in self._facts and not baseline.has(self._nodes[each].known_as)
            )
        lines += (f"fleet: {each}" for each in within_types(self._session.run.machines))
        return [foreign_text.line(each) for each in lines]

    # The run.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Have the machines run the tests."""
        config = self._config
        if config.getoption("collectonly") or (
            session.testsfailed and not config.getoption("continue_on_collection_errors")
        ):
            return None  # pytest's own does nothing then
        self._check_baseline()
        show_no_files(config)
        tests = list(dict.fromkeys(item.nodeid for item in session.items))
        everywhere = self._each or self._ahead
        usable = self.machines if everywhere else [m for m in self.machines if m not in self._lost]
        self._queue = plan(tests, usable, each=self._each)
        session.testscollected = sum(len(shard.tests) for shard in self._queue)
        self._orders = Orders(config, self._project, tuple(self._queue), len(self.machines))
        for type_ in dict.fromkeys(each.type for each in self.machines):
            own = [each for each in self.machines if each.type == type_]
            if all(each in self._lost for each in own) and not everywhere:
                why = f"machine {own[0].name} was lost: {self._lost[own[0]]}"
                self._give_up(Shard(own[0], tests), why)
        planned = {shard.machine for shard in self._queue}
        for link in self._links.open:
            if link.machine not in planned:
                link.ended = {}  # a later shard there has a connection of its own
                self._links.dismiss(link)
        try:
            self._loop(session)
        except BaseException:
            self._stop()
            raise
        finally:
            gc.unfreeze()
            self._leave()
            keep_failed(config, self._failed)
        return True

    def _loop(self, session: pytest.Session) -> None:
        while True:
            if self._queue:
                self._order()
            self._note_machines()
            if not any(link.shard for link in self._links.open) and not self._queue:
                return
            for link, said in self._links.turn(0.5):
                self._take(link, said)
            self._set_aside()
            if time.monotonic() - self._looked > _LOOK and (
                waiting := [link for link in self._unheard() if link.waits]
            ):
                self._look_again()
                for link in waiting:
                    if link.machine in self._lost:
                        self._links.close(link)
                        self._take(link, self._lost[link.machine])
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)

    def _set_aside(self) -> None:
        """Have Python's collector look no more at the reports and records that came: they stay until the end, and to
        walk through all of them again and again takes a quarter of the time of a large fleet."""
        if self._tests - self._aside >= _ASIDE:
            self._aside = self._tests
            gc.collect(1)
            gc.freeze()

    def _order(self) -> None:
        """Give each machine that is idle its next shard."""
        busy = {link.machine for link in self._links.open if link.shard is not None}
        idle = {link.machine: link for link in self._links.open if link.ended is None}
        for shard in tuple(self._queue):
            machine = shard.machine
            if machine in busy:
                continue
            busy.add(machine)
            self._queue.remove(shard)
            if (
                self._ahead and machine not in idle
            ):  # what it has left has been read, or is of no use
                why = (
                    f"machine {machine.name} was lost: {self._lost.get(machine, 'it has no more')}"
                )
                self._lose(machine, shard, why)
                continue
            try:
                link = idle.get(machine) or self._links.start(machine)
            except OSError as error:
                self._lose(machine, shard, str(error))
                continue
            link.shard = shard
            if link.hello is not None:
                self._links.send(link, self._orders.line(shard))

    # What the machines say.

    def _take(self, link: Link, said: Any) -> None:
        shard = link.shard
        if isinstance(said, str):
            if shard is not None:
                self._lose(link.machine, shard, f"machine {link.machine.name} was lost: {said}")
            elif link.ended is None and link.hello is None:
                self._lost.setdefault(link.machine, said)
            return
        if isinstance(said, list):
            if shard is not None:
                self._take_note(link, shard, said)
            return
        kind = said.get("vperf")
        if kind == "hello" and shard is not None:
            if wrong := self._unfit(link, said):
                self._links.close(link)
                self._lose(link.machine, shard, str(self._file.all_wrong(wrong)))
            else:
                self._links.send(link, self._orders.line(shard))
        elif kind == "waits":
            held = f"for {said['seconds']:.0f} s by {said['holder']}"
            say_notice(self._config, f"machine {link.machine.name} is held {held}: waiting for it")
        elif kind == "begins" and shard is not None:
            if other := self._orders.other(shard, said.get("about") or {}):
                self._links.close(link)
                why = f"machine {link.machine.name} was lost: its order was another one: {other}"
                self._lose(link.machine, shard, why)
        elif kind == "wants":
            self._links.send(link, self._project.cargo.line if self._project else b"{}\n")
        elif kind == "end":
            self._end(link, said)
        elif kind is None and shard is not None:
            self._take_report(link, shard, said)

    def _take_note(self, link: Link, shard: Shard, note: list[Any]) -> None:
        kind, what = note[0], note[1]
        if kind == "missing":
            shard.absent.update(what)
            node = self._nodes[link.machine]
            for test in what:
                self._report_lost(
                    Lost(
                        test,
                        node,
                        reason=f"error: machine {link.machine.name} does not have this test",
                    )
                )
        elif kind == "output":
            node = self._nodes[link.machine]
            node.workeroutput = what
            self._session.worker_ended(node)
            shard.told = True
        elif kind != "claiming" and shard.lacks(what):
            shard.notes.setdefault(what, []).append(note)

    def _take_report(self, link: Link, shard: Shard, data: dict[str, Any]) -> None:
        kind = data.get("$report_type")
        if kind == "WarningMessage":
            self._warn(link, data)
            return
        shard.failed = shard.failed or data.get("outcome") == "failed"
        if kind == "CollectReport" or not kind or "nodeid" not in data:
            return
        hook = self._config.hook
        report = hook.pytest_report_from_serializable(config=self._config, data=data)
        if report is None or report.nodeid not in shard.own:
            return
        vars(report).update(
            node=self._nodes[link.machine],
            worker_id=link.machine.name,
            testrun_uid=self._session.run.mark,
        )
        waiting = self._reports.setdefault((link.machine, report.nodeid), [])
        waiting.append(report)
        if report.when != "teardown":
            return
        report.user_properties.append(("vperf.machine", link.machine.name))
        shard.done.add(report.nodeid)
        self._tests += 1
        shard.notes.pop(report.nodeid, None)
        del self._reports[link.machine, report.nodeid]
        _share(waiting)
        for each in waiting:
            self._log(each)
        hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
        count_apart(self._config, report, link.machine.name)

    def _log(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        self._config.hook.pytest_runtest_logreport(report=report)

    def _warn(self, link: Link, data: Mapping[str, Any]) -> None:
        category = type(str(data.get("category") or "Warning"), (UserWarning,), {})
        message = warnings.WarningMessage(
            category(f"{link.machine.name}: {data['message']}"),
            category,
            str(data["filename"]),
            int(data["lineno"]),
        )
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": message,
                "nodeid": "",
                "when": data["when"],
                "location": data["location"] and tuple(data["location"]),
            }
        )

    def _end(self, link: Link, said: dict[str, Any]) -> None:
        """A shard has ended: what it has not reported is lost."""
        shard, link.ended, link.shard = link.shard, said, None
        self._links.dismiss(link)
        # A failure has been reported; a status of 1 without any is an error at pytest's end.
        proper = shard is not None and said["status"] in ((0, 1, 5) if shard.failed else (0, 5))
        if shard is not None and (shard.left or not proper):
            status = "" if said["status"] is None else f" with exit status {said['status']}"
            why = foreign_text.short(said["said"]) or "it said nothing"
            name = link.machine.name
            self._lose(
                link.machine, shard, f"pytest ended on machine {name}{status}: {why}", there=True
            )

    # Losses.

    def _lose(self, machine: FleetMachine, shard: Shard, why: str, *, there: bool = False) -> None:
        """Have what a shard has not reported run once more; what cannot be is not measured.

        Args:
            machine: on which it ran.
            shard: which.
            why: in words.
            there: whether the machine is there all the same.
        """
        self._look_again()
        if not there:
            self._lost[machine] = why
        ended = [record for lost in self._of(shard, why) for record in lost.ended]
        self._session.run.extend(each for each in ended if each not in self._session.run.claims)
        for key in [key for key in self._reports if key[0] is machine]:
            del self._reports[key]
        load = dict.fromkeys(self.machines, 0)
        for each in (*self._queue, *(link.shard for link in self._links.open if link.shard)):
            load[each.machine] += len(each.left)
        order = sorted(self.machines, key=lambda each: load[each])
        other = None
        if not self._ahead:
            other = made_good_on(shard, order, self._lost, each=self._each)
        tests = len(shard.left)
        counted = "1 test" if tests == 1 else f"{tests} tests"
        if tests == 0 or other is None:
            left = f"{counted} of its shard left, and no machine to run them"
            say_notice(self._config, f"{why}; {left if tests else 'all of its tests were over'}")
            if tests or there or not shard.told:  # nobody knows what else it had to say
                self._give_up(shard, why)
            return
        where = "there once more" if other is machine else f"on {other.name} instead"
        say_notice(self._config, f"{why}; {counted} of its shard run {where}")
        self._queue.append(shard.again(other))

    def _give_up(self, shard: Shard, why: str) -> None:
        """Report what is left of a shard as lost: the run is not green."""
        self._session.reports.worker_died = True
        for lost in self._of(shard, f"error: {why}"):
            self._report_lost(lost)

    def _of(self, shard: Shard, reason: str) -> Iterator[Lost]:
        """What is known of the tests that are left of a shard, and of the one that it makes good."""
        shards = [each for each in (shard.before, shard) if each is not None]
        for test in shard.left:
            lost = Lost(test, self._nodes[shard.machine], reason=reason)
            for kind, *words in (note for each in shards for note in each.notes.get(test, ())):
                take_note(lost, kind, words)
            yield lost

    def _report_lost(self, lost: Lost) -> None:
        self._session.reports.worker_died = True
        self._failed.add(lost.nodeid)
        claiming = {item.nodeid for item in self._session.claiming}
        if lost.nodeid in claiming:
            self._session.take_lost(lost)
            return
        location = (lost.nodeid.split("::")[0], None, lost.nodeid)
        for when, outcome, text in (
            ("call", "failed", f"not run: {lost.reason}"),
            ("teardown", "passed", None),
        ):
            report = pytest.TestReport(lost.nodeid, location, {}, outcome, text, when)  # type: ignore[arg-type]
            vars(report)["node"] = lost.worker
            self._config.hook.pytest_runtest_logreport(report=report)

    def _stop(self) -> None:
        """End all shards in order, and take what they still say."""
        for link in self._links.open:
            self._links.send(link, b"stop\n")
        deadline = time.monotonic() + _LIMIT
        while any(link.shard for link in self._links.open) and time.monotonic() < deadline:
            for link, said in self._links.turn(0.5):
                self._take_last(link, said)

    def _take_last(self, link: Link, said: Any) -> None:
        """As `_take`, but nothing is lost that was left out on purpose."""
        if isinstance(said, dict) and said.get("vperf") == "end":
            link.ended, link.shard = said, None
            self._links.dismiss(link)
        elif not isinstance(said, str):
            self._take(link, said)

    def _leave(self) -> None:
        """End the connections: those that are over, by themselves."""
        for link in self._links.open:
            self._links.dismiss(link)
        deadline = time.monotonic() + _PARTING
        while self._links.open and time.monotonic() < deadline:
            for _ in self._links.turn(0.1):
                pass
        for link in tuple(self._links.open):
            self._links.close(link)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """End what is still connected: nobody ran the tests."""
        for link in tuple(self._links.open):
            self._links.close(link)


def _share(reports: Sequence[pytest.TestReport]) -> None:
    """Have a test's reports say but once what they say alike: pytest keeps all of them until its end."""
    first, *others = (vars(each) for each in reports)
    alike = [key for key in _ALIKE if key in first]
    for each in others:
        each.update({key: first[key] for key in alike if each.get(key) == first[key]})
    properties: dict[str, tuple[str, object]] = {}
    for report in reports:
        for place, pair in enumerate(report.user_properties):
            match pair:
                case [str(name), value]:
                    own = properties.get(name)
                    if own is None or own[1] != value or type(own[1]) is not type(value):
                        own = (intern(name), intern(value) if type(value) is str else value)
                        properties[name] = own
                    report.user_properties[place] = own


def begin(config: pytest.Config) -> None:
    """Make a run one over a fleet.

    Raises:
        pytest.UsageError: its file is wrong, or an option does not go with it.
    """
    for option, given in (
        ("-n", config.getoption("numprocesses", None)),
        ("--tx", config.getoption("tx", None)),
        ("--pdb", config.getoption("usepdb", False)),
        ("--trace", config.getoption("trace", False)),
        ("--vperf-on", claims_session(config).settings.on),
    ):
        if given:
            raise pytest.UsageError(
                f"--claims-fleet: tests run on other machines: leave out {option}"
            )
    fleet = choose(config)
    folder = claims_session(config).settings.fleet_plan
    if folder is not None:
        config.option.collectonly = True
        config.pluginmanager.register(Planner(config, fleet, folder), "vperf-fleet")
        return
    _allow_descriptors(len(fleet.machines))
    config.pluginmanager.register(Fleet(config, fleet), "vperf-fleet")


def _allow_descriptors(machines: int) -> None:
    """Allow as many open files as the connections to the machines take, where that is allowed to us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES + _FILES_A_MACHINE * machines
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
