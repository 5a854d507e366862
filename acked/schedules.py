"""Schedules of faults as data (`docs/search.md`), and the body that carries one out."""

from __future__ import annotations

from studies.search.scenario import perform, set_up
from studies.search.schedule import Group, Member, Producer, Schedule, TopicPlan
from studies.steps.step import Moment, Step

__all__ = ["Schedule", "Step", "Moment", "Producer", "Group", "Member", "TopicPlan", "perform", "set_up"]
