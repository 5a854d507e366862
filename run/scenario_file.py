"""The user's own scenarios: read from a file, checked, and kept in the run folder.

Every mistake in a file is a UsageError that names the file and the line. A run keeps the text of its file as
`scenario.py`, and the processes of a series run that copy, so the copy is what ran, even if the file changes
in the meantime.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import TYPE_CHECKING

from harness.errors import AckedError, UsageError, text_of
from harness.texts import text_file
from run.declaration import check, line_of
from run.folder import SCENARIO, RunFolder
from run.scenario import Scenario, ScenarioFile

if TYPE_CHECKING:
    from run.stage import Stage

_ACKED = Path(__file__).parents[1]
_PACKAGES = (
    *("acked", "checkers", "cli", "harness", "nemesis", "report", "run"),
    "scenarios",
    "studies",
    "workloads",
)
"""acked's own packages, below `_ACKED`."""
_SHOWN = 120
"""Characters of an error's message that are shown."""
_HOLDS = "SCENARIO = Scenario(...), or SCENARIOS = (Scenario(...), ...)"


def is_file(reference: str) -> bool:
    """Whether a text names a scenario by its file (`my_case.py`, `./my_case.py:my-case`), not by its name."""
    return "/" in reference or reference.endswith(".py") or ".py:" in reference


def split(reference: str) -> tuple[Path, str]:
    """The path in `PATH[:NAME]`, and the name; empty if there is none."""
    place, colon, name = reference.rpartition(":")
    if colon and place.endswith(".py") and "/" not in name:
        return Path(place), name
    return Path(reference), ""


def find_in_file(reference: str) -> Scenario:
    """The scenario that `PATH` or `PATH:NAME` names. Raises UsageError."""
    path, name = split(reference)
    scenarios = read_file(path)
    names = [one.name for one in scenarios]
    if not name and len(scenarios) == 1:
        return scenarios[0]
    if not name:
        raise UsageError(
            f"{path} holds {len(scenarios)} scenarios ({', '.join(names)}); name one: {path}:{names[0]}"
        )
    if name not in names:
        raise UsageError(f"{path} holds no scenario {name!r}; it holds {', '.join(names)}.")
    return scenarios[names.index(name)]


def read_file(path: Path) -> list[Scenario]:
    """The scenarios that a file declares, checked. Raises UsageError."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it, or use --from {path}.")
    text = text_file(path, path, "name a Python file with a scenario, or `acked new NAME` writes one")
    return _declared(ScenarioFile(path.absolute(), text), shown=path)


def read_places(places: Iterable[Path]) -> list[Scenario]:
    """The scenarios of some files, and of all files `*.py` in some folders, except those that begin with `_`.

    Raises UsageError.
    """
    return [one for place in places for file in _files(place) for one in read_file(file)]


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise UsageError(
            f"--from {place}: there is no such file or folder; name scenario files, or folders of them."
        )
    files = sorted(file for file in place.glob("*.py") if not file.name.startswith("_"))
    if not files:
        raise UsageError(f"--from {place}: the folder holds no scenario file (*.py).")
    return files


def from_module(module: ModuleType, declared: object, reference: str) -> list[Scenario]:
    """The scenarios that an installed package offers, checked. Raises UsageError."""
    path = Path(module.__file__ or reference)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    file = ScenarioFile(path, text, module=module.__name__)
    return _checked(file, path, _scenarios(declared, path))


def kept(folder: RunFolder, name: str) -> Scenario | None:
    """The scenario in the copy that a run folder keeps; None for scenarios of the catalogue and of packages.

    Raises UsageError.
    """
    stated = folder.manifest().get("scenario_file")
    if not stated or stated["module"]:
        return None
    copy = ScenarioFile(Path(stated["path"]), (folder.path / SCENARIO).read_text(encoding="utf-8"))
    return next(one for one in _declared(copy, shown=copy.path) if one.name == name)


def require_distinct(scenarios: Iterable[Scenario]) -> None:
    """Raise UsageError for two scenarios with the same name: their runs would share a folder."""
    by_name: dict[str, Scenario] = {}
    for one in scenarios:
        other = by_name.setdefault(one.name, one)
        if other is not one and (other.file is None or other.file != one.file):
            raise UsageError(
                f"Two scenarios have the name {one.name!r}: {where(one)} and {where(other)}; rename one."
            )


def where(scenario: Scenario) -> str:
    """File and line of a scenario's declaration."""
    if scenario.file is None:
        return "the catalogue"
    return f"{scenario.file.path}:{line_of(scenario.file.text, 'Scenario', scenario.name)}"


def _declared(file: ScenarioFile, *, shown: Path) -> list[Scenario]:
    return _checked(file, shown, _scenarios(_run(file, shown), shown))


def _checked(file: ScenarioFile, shown: Path, scenarios: Sequence[Scenario]) -> list[Scenario]:
    for one in scenarios:
        check(one, file.text, shown)
    with_file = [replace(one, file=file, body=_guarded(one.body, file.path)) for one in scenarios]
    lines = [line_of(file.text, "Scenario", one.name) for one in scenarios]
    for number, one in enumerate(scenarios):
        if one.name in [other.name for other in scenarios[:number]]:
            raise UsageError(
                f"{shown}:{lines[number]}: two scenarios have the name {one.name!r}; rename one of them."
            )
    return with_file


def _scenarios(declared: object, path: Path) -> list[Scenario]:
    """What a module, or an object of one, declares."""
    if isinstance(declared, ModuleType):
        one = getattr(declared, "SCENARIO", None)
        many = getattr(declared, "SCENARIOS", None)
        declared = many if one is None else one
    if declared is None:
        raise UsageError(f"{path} holds no scenario; declare {_HOLDS}.")
    scenarios = [declared] if isinstance(declared, Scenario) else declared
    if (
        not isinstance(scenarios, list | tuple)
        or type(scenarios) not in (list, tuple)
        or not scenarios
        or not all(isinstance(one, Scenario) for one in scenarios)
    ):
        raise UsageError(f"{path} declares {type(declared).__name__} as its scenarios; declare {_HOLDS}.")
    return list(scenarios)


def _run(file: ScenarioFile, shown: Path) -> ModuleType:
    """Execute a file as a module of its own; modules in its folder can be imported."""
    folder = str(file.path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last: a user's module must not hide one that acked needs
    module = ModuleType(f"acked_scenario_{file.path.stem}_{file.sha256[:8]}")
    module.__file__ = str(file.path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(file.text, str(file.path), "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        place = shown if error.filename in (None, str(file.path)) else error.filename
        excerpt = f" in `{error.text.strip()}`" if error.text else ""
        raise UsageError(
            f"{place}:{error.lineno or 1}: syntax error{excerpt}: {error.msg}; correct the line."
        ) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the file raises: shown as a sentence
        line = _line_in(error, file.path)
        remedy = (
            "install the module, or correct the name"
            if isinstance(error, ImportError)
            else "correct the declaration"
        )
        raise UsageError(f"{shown}:{line}: {_sentence(error)}; {remedy}.") from None
    return module


def _guarded(body: Callable[[Stage], None], path: Path) -> Callable[[Stage], None]:
    """The body, with its own mistakes reported as a sentence; failures of the run pass through.

    An OSError (TimeoutError, FileNotFoundError, ...) is the scenario's own if its innermost frame, apart from
    those of libraries, is in the scenario's file or beside it. Otherwise acked raised it: a node or this
    machine failed.
    """

    def guarded(stage: Stage) -> None:
        try:
            body(stage)
        except (AckedError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit, for one, would be taken for an exit code
            place = _own_place(error, path)
            if isinstance(error, OSError) and place is None:
                raise
            last = "".join(traceback.format_exception(error, limit=-4)).rstrip()
            place = place or f"{path}:{_line_in(error, path)}"
            sentence = f"{place}: the scenario's body failed: {_sentence(error)}; correct it."
            raise AckedError(sentence, detail=last) from error

    return guarded


def _own_place(error: BaseException, path: Path) -> str | None:
    """File and line where a scenario's own code raised an error, or called the library that did.

    None if acked raised it.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file == path:
            return f"{path}:{frame.lineno}"
        if file.is_relative_to(_ACKED) and file.relative_to(_ACKED).parts[0] in _PACKAGES:
            return None
        if file.parent == path.parent:
            return f"{file}:{frame.lineno}"
    return None


def _sentence(error: BaseException) -> str:
    message_lines = text_of(error).strip().splitlines()
    if not message_lines:
        return type(error).__name__
    return f"{type(error).__name__}: {shorten(message_lines[0].rstrip('.'), _SHOWN, placeholder=' ...')}"


def _line_in(error: BaseException, path: Path) -> int:
    """The last line of a file that an error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == str(path)), 1)
