"""Checks of quicksilver.yaml: mistakes, and settings that are probably unintended."""

from __future__ import annotations

from collections.abc import Iterator

from policies.config.schema import queue_test
from quicksilver.doctor.finding import finding, setting
from quicksilver.doctor.model import SETTINGS, Facts, Finding, Place


def check(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with quicksilver.yaml."""
    settings = facts.settings
    for line in settings.mistakes:
        where, what = _split(line)
        why = "proxy and sidecars do not start with it, and a reload changes nothing"
        yield finding("settings", where, what, "no mistake", why, setting("correct this line"))
    for note in settings.notes:
        why = "it is allowed"
        yield finding(
            "settings-note", settings.place, note, "as you like", why, setting("check whether it is intended")
        )
    if settings.proxied and settings.proxy.upstream is None and settings.proxy.rm_conf_dir is None:
        why = "the proxy does not start: it does not know where the ResourceManager's scheduler was moved"
        remedy = setting("set proxy.upstream, e.g. rmhost:18030", "proxy")
        yield finding("proxy-upstream", settings.place, "proxy.upstream is not set", "an address", why, remedy)
    if settings.security.insecure:
        why = "whoever reaches the addresses sees tokens, or may do everything without one"
        remedy = setting("set security.tls_cert, tls_key and tls_ca (quicksilver certs), take insecure out")
        yield finding("rest-insecure", settings.place, "security.insecure is true", "TLS", why, remedy)
    policies = settings.policies
    if policies is None:
        return
    if not policies.section.queues:
        why = "everything stays guaranteed: quicksilver decides nothing"
        remedy = setting("list YARN queues in policies.queues, as in docs/policies.md")
        yield finding("no-queues", settings.place, "policies.queues is empty", "queues, or '*'", why, remedy)
    known = facts.live.queues if facts.live else ()
    for pattern in policies.section.queues if known else ():
        if not any(queue_test((pattern,))(queue) for queue in known):
            why = "no application is ever in it"
            remedy = setting(f"take one of {', '.join(sorted(known)[:20])}")
            found = f"policies.queues has {pattern}, which no queue of the ResourceManager is"
            yield finding("unknown-queue", settings.place, found, "a queue that is there", why, remedy)


def _split(line: str) -> tuple[Place, str]:
    """Take a line `file:line:column: what` apart."""
    file, *rest = line.split(":", 3)
    if len(rest) == 3 and rest[0].isdigit():
        return Place("", SETTINGS, None, file, int(rest[0])), rest[2].strip()
    return Place("", SETTINGS, None, file), ":".join(rest).strip() or line
