"""Schedules of faults as data (`docs/search.md`), and the body that carries one out."""

from __future__ import annotations

from studies.search.perform import perform
from studies.search.scenario import set_up
from studies.search.schedule import Group, Member, Moment, Producer, Schedule, Step, TopicPlan

__all__ = ["Schedule", "Step", "Moment", "Producer", "Group", "Member", "TopicPlan", "perform", "set_up"]
