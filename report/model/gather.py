"""From a run folder to its `ReportModel`: reads what is stored, and decides nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.history.schema import TABLES
from harness.kafka.model import broker_name
from report.model import causes
from report.model.beliefs import ToSeconds, Zombie, controller_host, lanes, leaders_by_epoch, splits, zombies
from report.model.blocked import blocked_readers
from report.model.chains import Chain, chains
from report.model.command import command_to_repeat
from report.model.facts import claim_of, promises_of, said_by_meaning, sentences
from report.model.faults import faults as faults_of
from report.model.judged import by_promises, verdict_of, writers_of
from report.model.latency import FILE, Latency, as_log, histograms
from report.model.logs import DamagedRecord, log_figure
from report.model.messages import COLUMNS, LOST, availability, fault_in_force, meta_of, send_bins
from report.model.model import (
    EffectiveSetting,
    File,
    Lane,
    Mark,
    Offsets,
    PartitionStory,
    ReportModel,
    Run,
    Unobserved,
    Zero,
)
from report.model.other_findings import explanations
from report.model.removals import consequences, elections, turns
from report.model.stories import chosen_messages, finding_groups, stories
from report.model.tables import WITH_TIME, Coded, Row, RunTables
from report.model.transactions import RunTransactions
from report.words.seen import limits_in_words

PARTITIONS = 4
"""At most this many topic partitions are drawn."""
_NO_ERROR = re.compile(r" with error 0$")
_QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)")
_BEFORE_S, _AFTER_S = 1.0, 1.5
_FINDING_COLUMNS = (
    *("class", "topic", "partition", "offset", "epoch", "writer", "seq", "label", "acked_ns", "acked_by"),
    *(
        "acked_during",
        "last_broker",
        "brokers",
        "cause",
        "cause_facts",
        "detail",
        "expected",
        "promise",
        "txn",
    ),
)


_NOTHING_SEEN = TABLES["sightings"].arrow().empty_table()
_WITH_THE_PAGE = ("report.html", FILE)
"""Files that are written together with the page, which does not list them."""


def report_model(folder: Path) -> ReportModel:
    """The model of a judged run folder. Raises BadDataError if the folder is damaged or not judged."""
    return _ModelBuilder(folder.resolve()).model()


def model_and_latencies(folder: Path) -> tuple[ReportModel, str]:
    """The same, and the text of `report.model.latency.FILE`."""
    builder = _ModelBuilder(folder.resolve())
    return builder.model(), as_log(builder.latencies)


class _ModelBuilder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables = RunTables(folder)
        self.manifest = self.tables.json("run.json")
        self.judgement = self.tables.json("judgement.json")
        self.small = {name: self.tables.rows(name) for name in WITH_TIME}
        self.life = self.tables.table("life", COLUMNS)
        self.zero = self.tables.time_zero()
        self.zero_ns, self.start_ns = self.zero.ns, self.tables.start_ns()
        self.findings = self.tables.table("findings", _FINDING_COLUMNS)
        self.marks = tuple(
            Mark(self.seconds(row["ns"]), row["name"], _mark_text(row["text"] or row["name"]))
            for row in self.small["marks"]
        )
        self._broken = self._places_with("promise", ("broken",))
        self._lost = self._places_with("class", LOST)
        self.latencies = histograms(self.life, self.tables.rows("writers"), folder / "streams")
        self.faults = faults_of(self.small["faults"], self.small["processes"], self.seconds)

    def seconds(self, ns: int) -> float:
        """A time of the history in seconds from time zero."""
        return round((ns - self.zero_ns) / 1e9, 4)

    def model(self) -> ReportModel:
        from_s, to_s = self._window()
        places = self._places()
        drawn = tuple(
            self._partition(place, from_s, to_s, first=place == places[0]) for place in places[:PARTITIONS]
        )
        controllers = lanes(self.small["views"], self.seconds, to_s, None)
        disagreed = splits(controllers, from_s, to_s)
        all_lanes = {(one.topic, one.partition): one.lanes for one in drawn}
        messages = chosen_messages(self.findings)
        message_stories = stories(
            self.tables,
            messages,
            self.seconds,
            lanes=all_lanes,
            faults=self.faults,
            marks=self.marks,
            log_events=self.small["log_events"],
        )
        transactions = RunTransactions(self.tables)
        transaction_stories = transactions.stories(
            self.findings, self.seconds, faults=self.faults, marks=self.marks
        )
        named = (story.message for story in (*message_stories, *transaction_stories))
        groups = finding_groups(self.findings, self.seconds, named, self.life)
        aliases: Mapping[str, str] = self.tables.json("claims.json").get("aliases") or {}
        steps = {one.name: one.s for one in self.marks}
        claims = tuple(
            claim_of(one, self.seconds, aliases, steps) for one in self.judgement.get("claims") or ()
        )
        azs = availability(
            self.life,
            self.zero_ns,
            fault_in_force(self.faults),
            {place: Latency.of(one) for place, one in self.latencies.items()},
        )
        promises = promises_of(self.judgement.get("promises") or ())
        imported = not self._scenario()
        verdict = verdict_of(self.judgement, groups, imported=imported)
        return ReportModel(
            run=self._run(from_s, to_s),
            zero=Zero(self.zero.fault, self._utc(self.zero_ns, "milliseconds")),
            verdict=replace(
                verdict,
                sentences=sentences(
                    verdict=verdict.verdict,
                    faults=self.faults,
                    zombies=self._zombies(drawn, controllers),
                    fates=verdict.fates,
                    groups=groups,
                    promises=promises,
                    availability=azs,
                    claims=claims,
                    partitions=drawn,
                    by_promises=by_promises(self.judgement),
                    imported=imported,
                    recorded=bool(verdict.seen),
                    consequences=consequences(
                        self.tables, self.findings, self.faults, self.small["log_events"], self.seconds
                    ),
                ),
                said_by_meaning=said_by_meaning(verdict.fates, groups),
                also=explanations(groups, verdict.lost),
                why=causes.reasons(groups, self._acks_of_lost(), self._chains(drawn, controllers)),
            ),
            from_s=from_s,
            to_s=to_s,
            marks=self.marks,
            faults=self.faults,
            partitions=drawn,
            other_partitions=max(0, len(places) - PARTITIONS),
            controllers=controllers,
            controller_splits=disagreed,
            controller_turns=tuple(
                election
                for election in elections(
                    controllers, "{0} is the active controller in epoch {1}", controller_host(controllers)
                )
                if from_s < election.s < to_s
            ),
            claims=claims,
            availability=azs,
            promises=promises,
            writers=writers_of(self.judgement),
            findings=dict(self.judgement.get("findings_by_class") or {}),
            groups=groups,
            stories=message_stories,
            transactions=transactions.groups(),
            blocked=blocked_readers(self.tables, self.seconds),
            unobserved=self._unobserved(),
            transaction_stories=transaction_stories,
            settings=self._settings(),
            files=_files(self.folder),
        )

    def _unobserved(self) -> tuple[Unobserved, ...]:
        """What the run did not observe, by time."""
        return tuple(
            Unobserved(
                by=row["source"],
                place=f"{row['topic']}/{row['partition']}",
                broker=row["broker"],
                from_s=None if row["since_ns"] is None else self.seconds(row["since_ns"]),
                to_s=self.seconds(row["ns"]),
                from_offset=row["from_offset"],
                to_offset=row["to_offset"],
                late=bool(row["late"]),
            )
            for row in self.judgement.get("unobserved") or ()
        )

    def _killed(self) -> dict[int, list[float]]:
        """By broker: when its process was killed."""
        by_broker: dict[int, list[float]] = {}
        for row in self.small["processes"]:
            broker = _broker_id(row["host"])
            if row["event"] == "killed" and broker is not None:
                by_broker.setdefault(broker, []).append(self.seconds(row["ns"]))
        return by_broker

    def _chains(self, drawn: Sequence[PartitionStory], controllers: Sequence[Lane]) -> tuple[Chain, ...]:
        """How messages of each partition were lost, in the order of the pictures."""
        lost_chains = chains(
            self.tables,
            self.findings,
            self.seconds,
            life=self.life,
            faults=self.faults,
            lanes={one.name: one.lanes for one in drawn},
            replaced=zombies(controllers, controller_host(controllers)),
            views=self.small["views"],
            log_events=self.small["log_events"],
        )
        order = {one.name: number for number, one in enumerate(drawn)}
        return tuple(sorted(lost_chains, key=lambda one: order.get(one.place, len(order))))

    def _acks_of_lost(self) -> set[int | None]:
        """The acks of the producers whose messages are lost."""
        rows = (
            self.findings.select(["class", "writer"])
            .group_by(["class", "writer"], use_threads=False)
            .aggregate([])
        )
        lost = {row["writer"] for row in rows.to_pylist() if row["class"] in LOST}
        return {
            row["acks"] for row in self.tables.rows("writers", ["writer", "acks"]) if row["writer"] in lost
        }

    def _run(self, from_s: float, to_s: float) -> Run:
        manifest = self.manifest
        declared = self.tables.json("claims.json")
        scenario = self._scenario()
        durations: Mapping[str, float] = manifest.get("durations") or {}
        kafka, mode, lab = (str(manifest.get(key) or "") for key in ("kafka", "mode", "lab"))
        return Run(
            scenario=scenario or self.folder.name,
            title=str(manifest.get("title") or ""),
            article=str(declared.get("article") or ""),
            section=str(declared.get("section") or ""),
            kafka=kafka,
            mode=mode,
            lab=lab,
            folder=str(self.folder),
            status=str(manifest.get("status") or ""),
            problem=str(manifest.get("problem") or ""),
            started=self._utc(self.start_ns, "seconds"),
            duration_s=round(float(durations.get("scenario") or to_s - from_s), 1) if scenario else 0.0,
            azs={str(key): str(value) for key, value in (manifest.get("azs") or {}).items()},
            roles={str(key): str(value) for key, value in (manifest.get("roles") or {}).items()},
            command=command_to_repeat(manifest, scenario)
            if scenario
            else f"acked check --import {self.folder}",
            made_by=tuple(_made_by(manifest)),
            imported=not scenario,
            limits=limits_in_words(manifest.get("recording")),
        )

    def _utc(self, ns: int, timespec: str) -> str:
        """A time of the history in ISO 8601; empty without a clock anchor."""
        anchor: Mapping[str, Any] = self.manifest.get("anchor") or {}
        if "wall_ns" not in anchor:
            return ""
        anchor_ns = int(anchor["monotonic_ns"])
        # A run under way has no tables yet; the anchor was taken as it began.
        wall_ns = int(anchor["wall_ns"]) + (ns or anchor_ns) - anchor_ns
        return datetime.fromtimestamp(wall_ns / 1e9, UTC).isoformat(timespec=timespec)

    def _scenario(self) -> str:
        """Empty for a history that another program recorded."""
        return str(self.manifest.get("scenario") or self.judgement.get("scenario") or "")

    def _window(self) -> tuple[float, float]:
        """From shortly before the first step of the scenario to shortly after its last event."""
        moments = [mark.s for mark in self.marks]
        moments += [fault.from_s for fault in self.faults]
        moments += [fault.to_s for fault in self.faults if fault.to_s is not None]
        sent = self.life["sent_ns"].drop_null()
        if len(sent):
            import pyarrow.compute as pc

            scripted = self.life.filter(
                pc.not_equal(pc.fill_null(self.life["role"].cast(pa.string()), ""), "stream")
            )
            limits = pc.min_max(scripted["sent_ns"] if scripted.num_rows else sent).as_py()
            moments += [self.seconds(limits["min"]), self.seconds(limits["max"])]
        if not moments:
            moments = [self.seconds(int(row["ns"])) for row in self.small["views"]] or [0.0]
        start = max(self.seconds(self.start_ns), min(moments) - _BEFORE_S)
        return round(start, 2), round(max(*moments, start + 1.0) + _AFTER_S, 2)

    def _places(self) -> list[tuple[str, int]]:
        """Topic partitions, the most interesting first.

        Those with a broken promise, with a loss, with other findings, with scripted messages, then any.
        """
        score: Counter[tuple[str, int]] = Counter()
        viewed = {
            (row["topic"], row["partition"]) for row in self.small["views"] if row["subject"] == "partition"
        }
        for place in viewed:
            score[place] = 0
        if self.findings.num_rows:
            counted = self.findings.group_by(["topic", "partition"], use_threads=False).aggregate(
                [([], "count_all")]
            )
            for row in counted.to_pylist():
                if row["topic"] is not None:
                    score[row["topic"], row["partition"]] += 10**9 + row["count_all"]
        for weight, remarkable in ((10**13, self._broken), (10**11, self._lost)):
            for place in remarkable:
                score[place] += weight
        if self.life.num_rows:
            keys = ["topic", "partition", "role"]
            for row in self.life.group_by(keys, use_threads=False).aggregate([([], "count_all")]).to_pylist():
                weight = 1 if row["role"] == "stream" else 1000
                score[row["topic"], row["partition"]] += weight + min(row["count_all"], 900)
        return sorted(score, key=lambda place: (-score[place], place))

    def _places_with(self, column: str, values: Sequence[str]) -> set[tuple[str, int]]:
        """Topic partitions of the findings with one of the values."""
        import pyarrow.compute as pc

        findings = self.findings.select(["topic", "partition", column])
        findings = findings.filter(
            pc.is_in(findings[column].cast(pa.string()), pa.array(values, pa.string()))
        )
        places = (
            findings.select(["topic", "partition"])
            .group_by(["topic", "partition"], use_threads=False)
            .aggregate([])
        )
        return {(row["topic"], row["partition"]) for row in places.to_pylist() if row["topic"] is not None}

    def _partition(
        self, place: tuple[str, int], from_s: float, to_s: float, *, first: bool
    ) -> PartitionStory:
        own = self.life.filter(_at(self.life, place)) if self.life.num_rows else self.life
        own_lanes = lanes(self.small["views"], self.seconds, to_s, place)
        offsets = offsets_by_broker(self.tables.rows("watermarks", None, place), self.seconds)
        replicas = self.tables.rows("replicas", ["broker"], place)
        count = self.findings.filter(_at(self.findings, place)).num_rows if self.findings.num_rows else 0
        gone_ns = self.tables.table("sightings", ("gone_ns",), place)["gone_ns"]
        telling = first or count or gone_ns.null_count < len(gone_ns)
        # Without a record that vanished there is nothing to tell of what was seen.
        sightings = self.tables.table("sightings", None, place) if telling else _NOTHING_SEEN
        logs = None
        if telling:
            logs = log_figure(
                sightings=sightings,
                copies=self.tables.table("copies", ["broker", "offset", "epoch", "writer", "seq"], place),
                meta=meta_of(own),
                marks=self.marks,
                lanes=own_lanes,
                offsets=offsets,
                killed=self._killed(),
                seconds=self.seconds,
                end_s=to_s,
                damaged=self._damaged(place),
                lost=_lost(own),
            )
        return PartitionStory(
            topic=place[0],
            partition=place[1],
            replicas=tuple(sorted({row["broker"] for row in replicas} | set(offsets))),
            findings=count,
            grave=place in self._broken | self._lost,
            lanes=own_lanes,
            splits=splits(own_lanes, from_s, to_s),
            leaders=leaders_by_epoch(own_lanes),
            sends=send_bins(own, self.zero_ns, from_s, to_s),
            offsets=offsets,
            logs=logs,
            turns=turns(
                own_lanes,
                sightings,
                _acknowledged(own, sightings),
                self.faults,
                self.small["processes"],
                [row for row in self.small["log_events"] if (row["topic"], row["partition"]) == place],
                self.seconds,
                from_s,
                to_s,
            ),
        )

    def _damaged(self, place: tuple[str, int]) -> dict[tuple[int, int], DamagedRecord]:
        """The damaged records of a topic partition, by broker and offset."""
        import pyarrow.compute as pc

        here = self.findings.filter(pc.equal(self.findings["class"].cast(pa.string()), "corrupt"))
        rows = here.filter(_at(here, place)).to_pylist() if here.num_rows else []
        name = f"{place[0]}/{place[1]}"
        damaged_records = {}
        for row in rows:
            for broker in row["brokers"] or ():
                by = [
                    (-fault.first_offset, fault.from_s)
                    for fault in self.faults
                    if fault.mechanism == "damage"
                    and f"broker{broker}" in fault.hosts
                    and name in fault.partitions
                    and fault.first_offset <= row["offset"]
                ]
                # The batch that begins last is the one that holds the record.
                damaged_s = min(by)[1] if by else None
                damaged_records[broker, row["offset"]] = DamagedRecord(damaged_s, row["epoch"])
        return damaged_records

    def _zombies(
        self, drawn: Sequence[PartitionStory], controllers: Sequence[Lane]
    ) -> list[tuple[str, Zombie]]:
        deposed = [(one.name, zombie) for one in drawn[:1] for zombie in zombies(one.lanes, broker_name)]
        return deposed + [
            ("controller", zombie) for zombie in zombies(controllers, controller_host(controllers))
        ]

    def _settings(self) -> tuple[EffectiveSetting, ...]:
        """Requested settings; a setting that all brokers share is listed once."""
        shared: dict[tuple[str, str, str], list[str]] = {}
        brokers: set[str] = set()
        settings = []
        for row in self.tables.rows("configs"):
            if row["scope"] == "broker":
                brokers.add(row["name"])
            if row["asked"] is None:
                continue
            if row["scope"] == "broker":
                shared.setdefault((row["key"], row["value"] or "", row["asked"]), []).append(row["name"])
            else:
                name = f"topic {row['name']}"
                settings.append(EffectiveSetting(name, row["key"], row["value"] or "", row["asked"]))
        for (key, value, asked), names in shared.items():
            scope = "all brokers" if set(names) == brokers else ", ".join(sorted(names))
            settings.append(EffectiveSetting(scope, key, value, asked))
        return tuple(sorted(settings, key=lambda one: (one.scope != "all brokers", one.scope, one.key)))


def _mark_text(text: str) -> str:
    """The text of a mark without the error code of a success, and with typographic quotation marks."""
    return _QUOTED.sub(r"“\1”", _NO_ERROR.sub("", text))


def _broker_id(source: str) -> int | None:
    return int(source.removeprefix("broker")) if source.startswith("broker") else None


def _at(table: pa.Table, place: tuple[str, int]) -> Any:
    import pyarrow.compute as pc

    return pc.and_(pc.equal(table["topic"], place[0]), pc.equal(table["partition"], place[1]))


def _acknowledged(life: pa.Table, sightings: pa.Table) -> set[tuple[int, int]]:
    """Writer and seq of the acknowledged messages of which a replica lost a record."""
    import pyarrow.compute as pc

    gone = sightings.filter(pc.is_valid(sightings["gone_ns"]))
    if not gone.num_rows:
        return set()
    acked = life.filter(pa.array(Coded.of(life, "outcome").among("ok")))
    acked = acked.filter(pc.is_in(acked["seq"], gone["seq"].unique()))
    return set(zip(acked["writer"].to_pylist(), acked["seq"].to_pylist(), strict=True))


def _lost(life: pa.Table) -> dict[int, tuple[int, int]]:
    """Writer and seq of the lost messages, by the offset at which each was acknowledged."""
    import pyarrow.compute as pc

    lost = life.filter(pc.is_in(life["fate"].cast(pa.string()), pa.array(LOST, pa.string())))
    places = zip(*(lost[name].to_pylist() for name in ("offset", "writer", "seq")), strict=True)
    return {offset: (writer, seq) for offset, writer, seq in places if offset is not None}


def offsets_by_broker(rows: Sequence[Row], seconds: ToSeconds) -> dict[int, tuple[Offsets, ...]]:
    by_broker: dict[int, list[Offsets]] = {}
    for row in rows:
        step = Offsets(seconds(row["ns"]), row["high_watermark"], row["leo"])
        by_broker.setdefault(row["broker"], []).append(step)
    return {broker: tuple(steps) for broker, steps in sorted(by_broker.items())}


def _made_by(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    facts: Mapping[str, Any] = manifest.get("made_by") or {}
    if facts:
        commit = f", commit {facts['commit']}" if facts.get("commit") else ""
        yield "acked", f"{facts.get('acked') or '?'}{commit}"
        yield "command line", str(facts.get("command") or "")
        yield (
            "machine",
            (
                f"{facts.get('system')}, {facts.get('processors')} processors, "
                f"{int(facts.get('memory_bytes') or 0) / 2**30:.1f} GiB, load {facts.get('load')} at first"
            ),
        )
        yield "Python", str(facts.get("python") or "")
    if manifest.get("java"):
        yield "Java", str(manifest["java"])
    jars: Mapping[str, str] = manifest.get("jars") or {}
    for name in [jar for jar in jars if jar.startswith("kafka_")]:
        yield f"{name}, one of {len(jars)} jars", f"SHA-256 {jars[name]}"


def _files(folder: Path) -> tuple[File, ...]:
    files = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _WITH_THE_PAGE:
            continue
        inside = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
        files.append(File(path.name + "/" * path.is_dir(), sum(one.lstat().st_size for one in inside)))
    return tuple(files)
