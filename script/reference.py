"""The pages of the reference that are made of the code whenever the site is built: an extension of Sphinx.

They are written to ``docs/reference``, which Git ignores. A name that is added to the code is on its page without any
further step, and one without a description stops the build.
"""

from __future__ import annotations

import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, is_typeddict

import pytest
from sphinx.errors import ExtensionError
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.pycode import ModuleAnalyzer

import pytest_vperf
from pytest_vperf import cli, hookspecs
from pytest_vperf.commands import help as commands_help
from pytest_vperf.fixtures import on_demand
from pytest_vperf.results import record
from pytest_vperf.run import options, result
from pytest_vperf.thresholds import profile
from pytest_vperf.workloads import registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sphinx.application import Sphinx

#: What pytest's exit statuses mean here; pytest has names for them and no words.
STATUSES = {
    pytest.ExitCode.OK: "nothing that was found fails a test at the run's level",
    pytest.ExitCode.TESTS_FAILED: "a claim is refuted, or not shown at a level that asks for it, or a test failed",
    pytest.ExitCode.INTERRUPTED: "the run was interrupted",
    pytest.ExitCode.INTERNAL_ERROR: "pytest, or a plug-in of it, failed",
    pytest.ExitCode.USAGE_ERROR: "an option, a setting or a threshold file cannot be used; nothing was judged",
    pytest.ExitCode.NO_TESTS_COLLECTED: "there was no test, or nothing was measured, or a gate compared nothing",
    pytest.ExitCode.MAX_WARNINGS_ERROR: "there were more warnings than pytest's ``--max-warnings`` allows",
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "reference"))
    return {"parallel_read_safe": True}


def write(folder: Path) -> None:
    """Write the pages; one that is the same keeps its time, or each build would be a whole one."""
    folder.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        path, text = folder / f"{name}.rst", "\n\n".join(make()) + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def options_page() -> Iterator[str]:
    """Every option with its ini setting."""
    yield _title("Options and settings")
    yield "What the command line says wins over the ini file, and each run's record has all settings that were used."
    for option in options.OPTIONS.values():
        yield _title(option.name, "-")
        yield _sentence(_known(option.help, option.name))
        example = f"{option.name}={option.example}" if option.example else option.name
        yield _fields(
            {
                "Usage": f"``{option.usage}``",
                "Default": _text(option.default or option.otherwise or "none"),
                "Setting": "none, it is given on the command line alone"
                if option.typed
                else f"``{option.ini}``",
                "Example": f"``{example}``",
            }
        )


def markers_page() -> Iterator[str]:
    """Every marker."""
    yield _title("Markers")
    yield "``pytest -m startup`` runs the claims of a family; ``vperf`` has settings of one test's claims."
    yield _table(
        ("Marker", "Meaning"), ((f"``{name}``", _text(it)) for name, it in options.MARKERS)
    )


def fixtures_page() -> Iterator[str]:
    """Every fixture that a test may ask for, the tools last."""
    found = dict(_fixtures())
    yield _title("Fixtures")
    yield "``pytest --fixtures`` lists them with those of a project's own and of other plug-ins."
    for name in sorted(on_demand.NAMES):
        yield _title(name, "-")
        yield _rest(_known(inspect.getdoc(found[name]), name))
    yield _title("Tools", "-")
    yield "Each runs a program of the field in a target and reads what it prints; :doc:`/tools` says how to use them."
    rows = ((f"``{each.name}``", _known(each.summary, each.name)) for each in registry.TOOLS)
    yield _table(("Fixture", "Tool"), rows)


def hooks_page() -> Iterator[str]:
    """Every hook that a plug-in may implement."""
    yield _title("Hooks")
    yield _rest(_known(inspect.getdoc(hookspecs), "hookspecs"))
    for name, hook in vars(hookspecs).items():
        if name.startswith("pytest_vperf_"):
            yield _title(f"{name}({', '.join(inspect.signature(hook).parameters)})", "-")
            yield _rest(_known(inspect.getdoc(hook), name))


def commands_page() -> Iterator[str]:
    """What ``--help`` says of each command."""
    yield _title("Commands")
    for name, command in commands_help.commands(cli.parser()):
        yield _title(name, "-")
        yield _literal(command.format_help())


def statuses_page() -> Iterator[str]:
    """The exit statuses of a run; those of commands are in their help."""
    yield _title("Exit statuses")
    yield (
        "Those of pytest, and one more. What makes a run fail at which level: :doc:`/verdicts`. The statuses of "
        "``vperf`` are in each command's help: :doc:`commands`."
    )
    lost = "the record of ``--claims-json`` or the store could not be written: ``EX_IOERR`` of ``sysexits.h``"
    rows = [(str(int(each)), STATUSES[each]) for each in pytest.ExitCode]
    yield _table(("Status", "Meaning"), [*rows, (str(result.RECORD_LOST), lost)])
    yield _title("Verdicts that fail a test", "-")
    rows = [(f"``{each}``", ", ".join(_failing(each))) for each in options.LEVELS]
    yield _table(("``--claims-level``", "Verdicts"), rows)


def thresholds_page() -> Iterator[str]:
    """The keys of a threshold file, by the part that they are in, from its JSON schema."""
    schema: dict[str, Any] = profile.json_schema()
    yield _title("Threshold files")
    yield "``vperf schema`` prints the JSON schema that this is of; :doc:`/thresholds` says how a file is written."
    parts = schema["$defs"]
    yield from _part("File", schema, parts)
    for name, part in sorted(parts.items()):
        yield from _part(name, part, parts)


def record_page() -> Iterator[str]:
    """The keys of a claim's record, by the part that they are in."""
    yield _title("Records")
    yield "The parts of a record of ``--claims-json``, as JSON has them; :doc:`/results` says what each key tells."
    parts = {
        name: each for name, each in vars(record).items() if is_typeddict(each) and name[0] != "_"
    }
    for name in ("ClaimRecord", *sorted(parts.keys() - {"ClaimRecord"})):
        yield f".. _record-{name.lower()}:"
        yield _title(name, "-")
        yield _rest(_known(inspect.getdoc(parts[name]), name))
        keys = {
            key: kind for each in parts[name].__mro__ for key, kind in _annotations(each).items()
        }
        yield _table(
            ("Key", "Type"), ((f"``{key}``", _typed(kind, parts)) for key, kind in keys.items())
        )


def api_page() -> Iterator[str]:
    """Everything that may be imported from the package."""
    yield _title("Python API")
    yield "Everything else is private, whatever it is called, and changes without notice: :doc:`/stability`."
    for name in sorted(pytest_vperf.__all__, key=str.lower):
        value = getattr(pytest_vperf, name)
        yield _title(name, "-")
        if isinstance(value, ModuleType):
            yield f".. automodule:: pytest_vperf.{name}\n   :members:"
        elif isinstance(value, type):
            kind = "exception" if issubclass(value, BaseException) else "class"
            yield f".. auto{kind}:: pytest_vperf.{name}\n   :members:"
        elif callable(value):
            yield f".. autofunction:: pytest_vperf.{name}"
        else:
            yield f".. py:data:: pytest_vperf.{name}\n   :value: {value!r}\n\n   {_constant(name)}"


PAGES = {
    "options": options_page,
    "markers": markers_page,
    "fixtures": fixtures_page,
    "hooks": hooks_page,
    "commands": commands_page,
    "statuses": statuses_page,
    "thresholds": thresholds_page,
    "record": record_page,
    "api": api_page,
}


def _fixtures() -> Iterator[tuple[str, Any]]:
    for module in on_demand.MODULES:
        for name, value in vars(import_module(f"pytest_vperf.fixtures.{module}")).items():
            if name in on_demand.NAMES:
                yield name, value


def _failing(level: Any) -> Iterable[str]:
    return sorted(result.failing(level)) or ["none"]


def _constant(name: str) -> str:
    """What the comment above a constant says, in the module that defines it."""
    module = f"pytest_vperf.{pytest_vperf._DEFINED_IN[name]}"
    return _known(
        " ".join(ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name), [])), name
    )


def _part(name: str, part: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    """The table of a schema's object, and a place that links lead to."""
    yield f".. _threshold-{name.lower()}:"
    yield _title(name.removesuffix("Part"), "-")
    yield _rest(_known(part.get("description"), name))
    required = part.get("required", [])
    rows = []
    for key, value in part["properties"].items():
        (link,) = re.findall(r'"#/\$defs/(\w+)"', json.dumps(value))[:1] or [""]
        words = value.get("description") or parts.get(link, {}).get("description")
        words = [_known(words, f"{name}.{key}").rstrip(".")]
        if "default" in value:
            words.append(f"default {json.dumps(value['default'])}")
        if key in required:
            words.append("must be there")
        if value.get("examples"):
            words.append(f"such as {', '.join(map(_plain, value['examples'][:3]))}")
        text = _text("; ".join(words))
        if link:
            text += f" :ref:`{link.removesuffix('Part')} <threshold-{link.lower()}>`"
        rows.append((f"``{key}``", text))
    yield _table(("Key", "Meaning"), rows)


def _annotations(of: type) -> Mapping[str, str]:
    """What a class writes, word for word; a table of keys has no use for what a checker makes of it."""
    found = inspect.get_annotations(of)
    return {key: getattr(kind, "__forward_arg__", str(kind)) for key, kind in found.items()}


def _typed(kind: str, parts: Mapping[str, object]) -> str:
    """A type with a link where it is a part that has a table."""
    words = [_json(kind)]
    words += [f":ref:`record-{each.lower()}`" for each in re.findall(r"\w+", kind) if each in parts]
    return " ".join(words)


def _json(kind: str) -> str:
    names = {
        "str": "text",
        "float": "number",
        "int": "whole number",
        "bool": "true or false",
        "None": "null",
    }
    return (
        "``" + re.sub(r"\b(str|float|int|bool|None)\b", lambda found: names[found[0]], kind) + "``"
    )


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _known(text: str | None, of: str) -> str:
    if not text:
        raise ExtensionError(f"{of} has no description")
    return text


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}"


def _fields(values: Mapping[str, str]) -> str:
    return "\n".join(f":{name}: {value}" for name, value in values.items())


def _literal(text: str) -> str:
    return ".. code-block:: text\n\n" + "\n".join(
        f"   {each}".rstrip() for each in text.rstrip().splitlines()
    )


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
    for first, second in (head, *rows):
        lines += [f"   * - {first}", f"     - {second}"]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return _text(f"{text[:1].upper()}{text[1:]}.")


def _text(text: str) -> str:
    """A text that is no markup, but for options, which are shown as what is typed."""
    return re.sub(
        r"(?<![\w`-])(--[a-z][\w-]*(?:=[\w./:%=-]*\w)?)",
        r"``\1``",
        re.sub(r"([\\*_|`])", r"\\\1", text),
    )


def _rest(docstring: str) -> str:
    """A docstring in Google's style as reStructuredText."""
    settings: Any = Config(napoleon_use_ivar=True)  # which stands for all of Sphinx's, untyped
    return str(GoogleDocstring(docstring, settings))
