"""Writes `docs/promises.md` from the promise table: `python -m checkers.promises.document`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from checkers.promises.bugs import KNOWN, KnownBug
from checkers.promises.conditions import CONDITIONS
from checkers.promises.settings import DISASTERS, SETTINGS, cell
from checkers.promises.table import (
    APPLICATIONS,
    LOSS_CLASSES,
    ROWS,
    SHARES,
    STATEMENTS,
    PromiseRow,
    StatementSource,
)

_HEAD = """\
# What Kafka promises

The checker judges every finding by the table on this page, with or without a scenario's claims. A finding is

* **broken**: Kafka promises that it does not happen;
* **not promised**: Kafka does not promise to prevent it under these settings and faults;
* **unknown**: the history does not hold the facts that decide, for example a configuration that was not
  recorded, or the final read did not reach the end of a log.

The first row that lists the class of the finding, and whose conditions all hold, decides. If an earlier row
with the opposite verdict cannot be decided, the promise is unknown.

The judgement does not change the verdict of a scenario's run. A scenario may expect a broken promise (a
known bug), and a finding that it does not declare violates the run even if Kafka does not promise its
absence.
In runs of `acked assess`, `acked search`, `acked replay` and `acked shrink` the promises decide instead
(`judged_by` in `claims.json` and `judgement.json`): broken ones violate the run, and so does a
`process_exit`, `server_error` or `config_mismatch`, which no fault explains.

The table `findings` holds the judgement:

| column | content |
|---|---|
| `promise` | `broken`, `not promised` or `unknown` |
| `promise_row` | the row below that decided; for `unknown` the first row that might decide |
| `promise_reason` | the facts that decided, or the fact that is missing |
| `known_bug` | the [known bug](#known-bugs) that explains the finding |

```sh
acked sql "SELECT promise, promise_row, known_bug, count(*) AS findings FROM findings
           GROUP BY ALL ORDER BY promise" runs/leader-az-isolated/latest
```

This page is generated: `python -m checkers.promises.document > docs/promises.md`.
"""

_MATRIX = """\
## An acknowledged message, setting by setting

Three replicas in three AZs, `unclean.leader.election.enable=false` unless the row says otherwise, no flush
setting, Kafka 3.9 with KRaft (ZooKeeper promises the same). Each cell shows what the table says about a
message that was acknowledged before the fault, with a link to the row that decides.

"""

_SUBJECTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Messages that are gone, moved or elsewhere", LOSS_CLASSES),
    ("Duplicates and failed writes", ("duplicated", "phantom")),
    ("Order", ("out_of_order",)),
    ("Records and replicas", ("corrupt", "foreign", "misrouted", "overwritten", "not_converged")),
    (
        "Readers and groups",
        (
            *("skip", "non_monotonic", "replay", "group_reset", "group_stalled"),
            *("commit_lost", "stale_offset", "offset_expired", "double_ownership", "offset_outside"),
        ),
    ),
    ("Share groups", SHARES),
    ("Applications of Kafka Streams", APPLICATIONS),
    ("The run itself", ("process_exit", "server_error", "config_mismatch")),
)

_TAIL = """\
## Limits

* Topic configurations that change during a run are not recorded; the table uses the values read at the start.
* A message is committed if it was acknowledged with `acks=all`, or if a consumer received it. A message with
  `acks=1` that was replicated to all in-sync replicas, but never read, is judged as uncommitted.
* ISRs are those that the metadata store reported, as often as the observer asked. The observer does not see
  an ISR that existed only between two reports.
* A paused or isolated broker counts as alive: it keeps its data.
"""


def document() -> str:
    """The complete page."""
    parts = [_HEAD, _MATRIX + _matrix()]
    shown: set[str] = set()
    parts.append("## The rows\n\nWithin a section, a row applies if no row above it does.\n")
    for title, classes in _SUBJECTS:
        rows = [row for row in ROWS if set(row.classes) & set(classes) and row.name not in shown]
        shown |= {row.name for row in rows}
        parts.append(f"### {title}\n\n" + "\n".join(map(_row, rows)))
    parts.append("## Statements without findings\n\n" + "".join(map(_statement, _statements())))
    parts.append("## Conditions\n\n| condition | holds if |\n|---|---|\n" + "".join(_conditions()))
    parts.append(_bugs())
    return "\n".join([*parts, _TAIL])


def _matrix() -> str:
    names = " | ".join(setting.name for setting in SETTINGS)
    lines = [f"| | {names} |", "|---" * (len(SETTINGS) + 1) + "|"]
    for disaster in DISASTERS:
        cells = []
        for setting in SETTINGS:
            judged = cell(setting, disaster)
            cell_text = "**kept**" if judged.promise == "broken" else "may be lost"
            cells.append(f"[{cell_text}](#{judged.row})")
        lines.append(f"| {disaster.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _row(row: PromiseRow) -> str:
    verdict = "promised" if row.promised else "not promised"
    when = "; ".join(row.when) or "always"
    return (
        f'<a id="{row.name}"></a>**{row.name}** — {verdict}. {row.says}<br>\n'
        f"Findings: {_names(row.classes)}. If: {when}.<br>\n"
        f"Source: {_sources(row.sources)}.\n"
    )


def _names(classes: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in classes)


def _sources(sources: Iterable[StatementSource]) -> str:
    return "; ".join(source.text for source in sources)


def _statements() -> Iterable[tuple[str, str, tuple[StatementSource, ...]]]:
    return ((statement.name, statement.says, statement.sources) for statement in STATEMENTS)


def _statement(entry: tuple[str, str, tuple[StatementSource, ...]]) -> str:
    name, says, sources = entry
    return f"* **{name}**: {says} ({_sources(sources)})\n"


def _conditions() -> Iterable[str]:
    return (f"| {name} | {condition.means} |\n" for name, condition in CONDITIONS.items())


def _bugs() -> str:
    head = (
        "## Known bugs\n\nA broken promise names the known bug that explains it, so that a new one stands "
        "out.\n\n"
        "| bug | what happens | findings | if | versions |\n|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {bug.name} | {bug.says} | {_names(bug.classes)} | {'; '.join(bug.when)} | {_versions(bug)} |\n"
        for bug in KNOWN
    )


def _versions(bug: KnownBug) -> str:
    since = f"from {bug.since}" if bug.since else ""
    before = f"before {bug.before}" if bug.before else ""
    return " ".join(part for part in (since, before, "(KRaft)" if bug.kraft else "") if part) or "any"


if __name__ == "__main__":
    sys.stdout.write(document())
