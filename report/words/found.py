"""A group of findings in words, for results of several runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def finding_in_words(finding: Mapping[str, Any], promise: str = "") -> str:
    """A group of findings: its class and its cause, and the ``promise`` of Kafka that it is about."""
    name, bug = str(finding["name"]), str(finding["known_bug"])
    text = name.replace("_", " ").replace("-", " ")
    if finding["cause"]:
        cause = str(finding["cause"])
        kind = re.fullmatch(r"[a-z_]+", cause)
        text += (
            ", cause not known" if cause == "not known" else f": {cause.replace('_', ' ') if kind else cause}"
        )
    if bug:
        return f"{text} (known bug: {bug})"
    if finding["promise"] == "broken":
        return f"{text} (breaks a promise{': ' if promise else ''}{promise})"
    return f"{text} ({promise})" if promise else text
