"""The daemon's metrics in the form of Hadoop's JMXJsonServlet; of the process what Python knows, no Java beans.

Metrics without labels are attributes of the bean `name=Metrics`. A metric with labels is a bean for each set of labels,
such as `name=Grants,kind=Q`, as Hadoop's own QueueMetrics are; a histogram has the attributes of Hadoop's rates,
NumOps and AvgTime, and the sum of all values.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.samples import Sample

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.process.version import version

Bean = dict[str, Any]
_EVERY: Final = "*:*"
_HISTOGRAM: Final = {"count": "NumOps", "sum": "Total"}
_UNSAFE: Final = re.compile(r'[,=:"*?\n]')
_STARTED_S: Final = time.time()


def beans(service: str, registry: CollectorRegistry) -> list[Bean]:
    """Return all beans of a daemon; `service` is part of their names."""
    domain = f"Hadoop:service={service},name="
    return [_process(domain), *_metrics(domain, registry.collect())]


def answer(candidates: Iterable[Bean], *, qry: str = "", get: str = "") -> bytes:
    """Return the JSON of the beans whose names match `qry`, or of one attribute `get` (BEAN::ATTRIBUTE).

    Raises ApiError (400) for a pattern that is none, (404) for a bean or an attribute that is not there.
    """
    if not get:
        return _json([bean for bean in candidates if matches(bean["name"], qry or _EVERY)])
    name, colons, attribute = get.partition("::")
    if not (colons and name and attribute) or "::" in attribute:
        raise ApiError(
            400,
            "bad-query",
            "`get` has to be BEAN::ATTRIBUTE, such as Hadoop:service=QuicksilverProxy,name=Process::Uptime",
        )
    hits = [bean for bean in candidates if matches(bean["name"], name)]
    if not any(attribute in bean for bean in hits):
        raise ApiError(
            404, "unknown-attribute", f"no bean {name[:200]} has an attribute {attribute[:200]}; /jmx lists all"
        )
    keys = ("name", "modelerType", attribute)
    return _json([{key: bean[key] for key in keys if key in bean} for bean in hits])


def matches(name: str, pattern: str) -> bool:
    """Return whether the name of a bean matches a pattern, as Java's ObjectName does. Raises ApiError (400)."""
    domain, colon, rest = pattern.partition(":")
    if not colon:
        message = f"{pattern[:200]!r} is no name of a bean; write DOMAIN:KEY=VALUE,... with * for the rest"
        raise ApiError(400, "bad-query", message)
    own_domain, _, own_rest = name.partition(":")
    parts = rest.split(",")
    pairs = [part.partition("=") for part in parts if part != "*"]
    if any(not (key and equals) for key, equals, _ in pairs):
        raise ApiError(400, "bad-query", f"{pattern[:200]!r} has a part that is not KEY=VALUE")
    own = dict(part.partition("=")[::2] for part in own_rest.split(","))
    if not _like(own_domain, domain) or ("*" not in parts and len(pairs) != len(own)):
        return False
    return all(key in own and _like(own[key], value) for key, _, value in pairs)


def _like(text: str, pattern: str) -> bool:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in re.sub(r"\*+", "*", pattern[:500]))
    return re.fullmatch("".join(parts), text) is not None


def _process(domain: str) -> Bean:
    counts = gc.get_stats()
    return {
        "name": f"{domain}Process",
        "modelerType": "Process",
        "Pid": os.getpid(),
        "Version": version(),
        "PythonVersion": platform.python_version(),
        "PythonImplementation": sys.implementation.name,
        "Host": platform.node(),
        "StartTime": round(_STARTED_S * 1000),
        "Uptime": round((time.time() - _STARTED_S) * 1000),
        "CpuSeconds": round(time.process_time(), 3),
        "ThreadCount": threading.active_count(),
        "GcCollections": [generation["collections"] for generation in counts],
        "GcCollected": [generation["collected"] for generation in counts],
    }


def _metrics(domain: str, families: Iterable[Metric]) -> Iterator[Bean]:
    plain: Bean = {"name": f"{domain}Metrics", "modelerType": "Metrics"}
    labelled: dict[str, Bean] = {}
    for family in families:
        title = _title(family.name)
        for sample in family.samples:
            suffix = sample.name.removeprefix(family.name).strip("_")
            if suffix in ("bucket", "created"):
                continue
            labels = sample.labels
            if family.type == "info":
                plain.update({f"tag.{_camel(key)}": value for key, value in labels.items()})
                continue
            key, value = _attribute(title, suffix, labels), _number(sample)
            target = (
                plain if not labels else labelled.setdefault(_bean_name(domain, title, labels), _bean(title, labels))
            )
            target[key] = value
    yield plain
    for name, bean in labelled.items():
        if "NumOps" in bean:
            bean["AvgTime"] = bean["Total"] / bean["NumOps"] if bean["NumOps"] else 0.0
        yield {"name": name} | bean


def _bean(title: str, labels: Mapping[str, str]) -> Bean:
    return {"modelerType": title} | {f"tag.{_camel(key)}": value for key, value in labels.items()}


def _bean_name(domain: str, title: str, labels: Mapping[str, str]) -> str:
    return f"{domain}{title}," + ",".join(f"{key}={_UNSAFE.sub('_', value)}" for key, value in labels.items())


def _attribute(title: str, suffix: str, labels: Mapping[str, str]) -> str:
    short = _HISTOGRAM.get(suffix, "")
    if labels:
        return short or "Value"
    return title + short


def _number(sample: Sample) -> float | int | None:
    """Return a value as JSON can hold it; NaN, which stands for none, is null."""
    value = sample.value
    if not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else value


def _title(name: str) -> str:
    return _camel(re.sub(r"^quicksilver_(proxy|sidecar)_", "", name))


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _json(rows: list[Bean]) -> bytes:
    return json.dumps({"beans": rows}, indent=1, allow_nan=False).encode()
