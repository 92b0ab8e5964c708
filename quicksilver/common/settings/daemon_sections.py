"""Sections of quicksilver.yaml that both daemons read beside their own: the audit log and traces."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from quicksilver.common.process import audit_log, tracing
from quicksilver.common.process.audit_log import AuditSettings, configure_audit
from quicksilver.common.process.tracing import TracingSettings, configure_tracing
from quicksilver.common.settings.settings_file import SettingsFile


def configure_daemon(file: SettingsFile, service: str) -> Mapping[str, BaseModel]:
    """Open the audit log and begin to trace as a settings file says; returns the sections, by name.

    service: the daemon's name in traces. Raises SettingsError.
    """
    audit = file.section(audit_log.SECTION, AuditSettings)
    traces = file.section(tracing.SECTION, TracingSettings)
    configure_audit(audit)
    configure_tracing(traces, service)
    return {audit_log.SECTION: audit, tracing.SECTION: traces}
