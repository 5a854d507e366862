"""`python -m tests.broker_properties`: writes the table of broker properties, from the jars of all versions.

Run it when a Kafka version is added. It downloads the jars that the cache lacks.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.artifacts import resolve
from harness.kafka import broker_properties
from harness.kafka.versions import VERSIONS

Row = tuple[str, str]
"""Type and validator of a property."""
_JAVA = Path(__file__).with_name("BrokerProperties.java")
_RANGE = re.compile(r"\[(-?[\d.E-]+),\.\.\.(?:,(-?[\d.E-]+))?\](?: or (-?\d+))?")
_TEXTS = re.compile(r"\[([\w, -]{1,80})\]")
BY_CODE = {"compression.type": "gzip|lz4|producer|snappy|uncompressed|zstd"}
"""Limits that older versions check outside of the validator."""


def properties_of(version: str) -> dict[str, Row]:
    """The properties of a version, as its jars have them."""
    kafka = resolve(version, make_archives=False)
    command = [kafka.java.path, "-cp", kafka.class_path(), str(_JAVA)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = (line.split("\t") for line in out.splitlines())
    return {name: (kind.lower(), validator) for name, kind, validator in rows}


def table(properties: Mapping[str, Mapping[str, Row]]) -> Iterator[str]:
    """The lines of the table; ``properties`` by version, oldest first."""
    versions = list(properties)
    for name in sorted({name for rows in properties.values() for name in rows}):
        last = max(place for place, version in enumerate(versions) if name in properties[version])
        first = last
        while first and name in properties[versions[first - 1]]:  # it may have been internal in between
            first -= 1
        having = versions[first : last + 1]
        rows = [properties[version][name] for version in having]
        kinds = {kind for kind, _ in rows}
        kind = "string" if "string" in kinds else "long" if kinds == {"int", "long"} else rows[-1][0]
        limits = BY_CODE.get(name) or _limits([validator for _, validator in rows], kind)
        since, until = having[0] if first else "", "" if last == len(versions) - 1 else having[-1]
        yield f"{name} {kind} {limits} {f'{since}-{until}' if since or until else 'all'}"


def _limits(validators: list[str], kind: str) -> str:
    """The widest range, or all texts, of the validators; `any` if one has neither."""
    ranges = [match for one in validators if (match := _RANGE.fullmatch(one))]
    if len(ranges) == len(validators):
        least = min(float(number) for one in ranges for number in (one[1], one[3]) if number)
        most = [one[2] for one in ranges]
        return f"{least:.10g}..{'' if None in most else f'{max(map(float, most)):.10g}'}"
    texts = [match for one in validators if (match := _TEXTS.fullmatch(one))]
    if kind in ("string", "list") and len(texts) == len(validators):
        return "|".join(sorted({text.strip() for one in texts for text in one[1].split(",")}))
    return "any"


def main() -> None:
    file = Path(broker_properties.__file__)
    lines = "\n".join(table({version: properties_of(version) for version in VERSIONS}))
    text = re.sub(r'(?<=_TABLE = """\n).*?(?=\n""")', lambda _: lines, file.read_text(), flags=re.DOTALL)
    newest = list(VERSIONS)[-1]
    file.write_text(re.sub(r'(?<=_NEWEST = ")[\d.]+', newest, text))


if __name__ == "__main__":
    main()
