"""Sentences about applications of Kafka Streams: what readers get of their topics, and what stores hold."""

from __future__ import annotations

from dataclasses import dataclass

from checkers.claims.builders.sql import FINAL, answer, mark, sentence, sql_texts, window


@dataclass(frozen=True)
class Application:
    """An application that counts the words of each partition of a topic."""

    name: str
    """Its application.id."""
    source: str
    """The topic that it reads."""

    @sentence("copies", "reads", "applications")
    def counts(self, topic: str, *, after: str, before: str, at_least: int = 1, once: bool = True) -> str:
        """Readers of committed records get each message of the source from ``topic``: output or changelog.

        It is at least ``at_least`` messages. With ``once``, they get each of them once; otherwise at least
        once. The readers read the whole topic between two marks.
        """
        wrong = "n <> 1" if once else "n = 0"
        read = (
            "SELECT writer, seq, count(*) AS n FROM "
            "(SELECT DISTINCT writer, seq, partition, offset FROM reads "
            f"WHERE topic = '{topic}' AND isolation = 'read_committed'{window(after, before)}) "
            "GROUP BY writer, seq"
        )
        return answer(
            f"CASE WHEN count(*) >= {at_least} AND {FINAL} THEN count_if({wrong}) = 0 END",
            "concat(count(*), ' messages, ', count_if(n = 0), ' missing, ', count_if(n > 1), "
            "' more than once')",
            f"(SELECT coalesce(n, 0) AS n FROM ({self._inputs}) i LEFT JOIN ({read}) r "
            "ON i.writer = r.writer AND i.seq = r.seq)",
        )

    @sentence("copies")
    def is_written_again(self, topic: str, *, at_least: int = 1) -> str:
        """The final log of ``topic`` holds at least so many messages of the source more often than once.

        Without a fault, the application writes each of them once. Readers of committed records need not get
        what it wrote again: the first attempt may have been aborted.
        """
        written = f"SELECT DISTINCT writer, seq, partition, offset FROM copies WHERE topic = '{topic}'"
        return answer(
            f"CASE WHEN {FINAL} THEN count(*) >= {at_least} END",
            "concat(count(*), ' messages more than once')",
            f"(SELECT writer, seq FROM ({written}) w WHERE writer IS NOT NULL GROUP BY writer, seq "
            "HAVING count(*) > 1)",
        )

    @sentence("copies", "applications")
    def store_counts(self, *by: str, after: str, before: str, exactly: bool = True, at_least: int = 1) -> str:
        """What the stores of instances hold between two marks is the number of messages of each word.

        There are at least ``at_least`` words. Unless it is ``exactly`` that, the stores may hold more.
        """
        stored = (
            f"SELECT partition, word, max_by(count, ns) AS n FROM applications WHERE {self._own} "
            f"AND event = 'stored' AND word IS NOT NULL AND member IN ({sql_texts(by)})"
            f"{window(after, before)} GROUP BY partition, word"
        )
        words = f"SELECT max(words) FROM applications WHERE {self._own}"
        inputs = (
            f"SELECT partition, concat(writer, '/', seq % ({words})) AS word, count(*) AS n "
            f"FROM ({self._inputs}) GROUP BY partition, word"
        )
        right = "coalesce(s.n, 0) = coalesce(i.n, 0)" if exactly else "coalesce(s.n, 0) >= coalesce(i.n, 0)"
        return answer(
            f"CASE WHEN count(s.n) >= {at_least} AND {FINAL} THEN count_if({right}) = count(*) END",
            "concat(count(s.n), ' words, ', coalesce(sum(s.n), 0), ' counted, ', coalesce(sum(i.n), 0), "
            f"' messages, ', count_if(NOT ({right})), ' words wrong')",
            f"({stored}) s FULL JOIN ({inputs}) i ON s.partition = i.partition AND s.word = i.word",
        )

    @sentence("applications")
    def is_processed_by(self, *members: str, partitions: int, at: str) -> str:
        """These instances process all partitions at a mark, by their newest states; no others are asked.

        One that is cut off goes on to say that it processes what others have taken over.
        """
        newest = (
            f"SELECT member, max_by(state, ns) AS state, max_by(partitions, ns) AS parts FROM applications "
            f"WHERE {self._own} AND event = 'state' AND ns <= {mark(at)} "
            f"AND member IN ({sql_texts(members)}) GROUP BY member"
        )
        return answer(
            f"CASE WHEN count(*) > 0 THEN count_if(state = 'RUNNING' AND size(parts) > 0) = {len(members)} "
            f"AND coalesce(sum(size(parts)), 0) = {partitions} END",
            "coalesce(concat_ws(', ', collect_list(concat(member, ' ', state, ' ', size(parts)))), 'none')",
            f"({newest})",
        )

    @property
    def _own(self) -> str:
        return f"application = '{self.name}'"

    @property
    def _inputs(self) -> str:
        """The messages in the final logs of the source."""
        return (
            f"SELECT DISTINCT partition, writer, seq FROM copies WHERE topic = '{self.source}' "
            "AND NOT coalesce(control, false) AND writer IS NOT NULL"
        )


def application(name: str, source: str) -> Application:
    """An application of Kafka Streams that reads a topic."""
    return Application(name, source)
