"""Decisions about one container that need more than one slot: functions of the bound set of policies."""
