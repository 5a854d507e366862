"""Faults: those that `stage.nemesis` offers, and the classes for writing your own."""

from __future__ import annotations

from harness.history.mechanisms import MECHANISMS, Kind
from harness.lab.model import Host, Lab, Result, Topology
from nemesis.fault import Action, Evidence, Fault, Injection, Targets
from nemesis.nemesis import Nemesis
from nemesis.network.degrade import Degrade
from nemesis.network.links import Connection
from nemesis.operator import Operator
from nemesis.storage.faults import Storage

__all__ = [
    "Nemesis",
    "Degrade",
    "Storage",
    "Operator",
    "Injection",
    "Fault",
    "Action",
    "Kind",
    "Targets",
    "Evidence",
    "Connection",
    "MECHANISMS",
    "Lab",
    "Topology",
    "Host",
    "Result",
]
