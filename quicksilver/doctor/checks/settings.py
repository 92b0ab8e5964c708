"""Checks of quicksilver.yaml: mistakes, and settings that are probably unintended."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from policies.config.policy_set import Policies
from policies.config.schema import full_queue, queue_test
from quicksilver.doctor.finding import finding, setting
from quicksilver.doctor.model import SETTINGS, DoctorPlace, Facts, Finding
from quicksilver.doctor.queue_names import FileQueues, named_queues


def check(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with quicksilver.yaml."""
    settings = facts.settings
    for line in settings.mistakes:
        where, problem = _split(line)
        why = "proxy and sidecars do not start with it, and a reload changes nothing"
        yield finding("settings", where, problem, "no mistake", why, setting("correct this line"))
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
    yield from _queues(facts, policies)


def _queues(facts: Facts, policies: Policies) -> Iterator[Finding]:
    """Yield the queues that no ResourceManager has: by its REST, without it by the file of its scheduler."""
    files = FileQueues(facts.rms)
    live = facts.live.queues if facts.live else ()
    known = sorted(live or files.names)
    for place, glob in named_queues(policies) if known else ():
        if any(queue_test((glob,))(queue) for queue in known) if live else files.may_have(glob):
            continue
        why = "no application is ever in it"
        close = get_close_matches(full_queue(glob), known, n=1)
        remedy = setting(f"{f'did you mean {close[0]}? ' if close else ''}Take one of {', '.join(known[:20])}")
        of = "of the ResourceManager" if live else f"in {files.file}"
        state = f"{place} has {glob}, which is no queue {of}"
        yield finding("unknown-queue", facts.settings.place, state, "a queue that is there", why, remedy)


def _split(line: str) -> tuple[DoctorPlace, str]:
    """Take a line `file:line:column: what` apart."""
    file, *rest = line.split(":", 3)
    if len(rest) == 3 and rest[0].isdigit():
        return DoctorPlace("", SETTINGS, None, file, int(rest[0])), rest[2].strip()
    return DoctorPlace("", SETTINGS, None, file), ":".join(rest).strip() or line
