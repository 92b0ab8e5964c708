"""ZApps of Zoe, of each version, become descriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quicksilver_apps.description.mistakes import DescriptionError
from quicksilver_apps.description.reader import template_from_data
from quicksilver_apps.description.zapp import ImportedZapp, convert_text
from quicksilver_apps.description.zapp_values import ServiceNames


def service3(name: str, **more: Any) -> dict[str, Any]:
    """Return a service of version 3."""
    limits = {"memory": {"min": 2**29, "max": 2**30}, "cores": {"min": 1.5, "max": 1.5}}
    base = {"name": name, "image": f"lab/{name}:7", "command": "serve", "monitor": False, "startup_order": 0}
    counts = {"total_count": 1, "essential_count": 1, "resources": limits}
    return {**base, **counts, "environment": [], "ports": [], "volumes": [], **more}


def zapp3(*services: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "lab", "version": 3, "will_end": True, "size": 0, "services": list(services), **more}


def converted(data: Any) -> ImportedZapp:
    found = convert_text(json.dumps(data, indent=1), "zapp.json")
    template = template_from_data(found.data)
    template.fill(dict.fromkeys(template.parameters, "x"))
    return found


def test_counts_become_core_and_elastic_and_orders_become_after() -> None:
    found = converted(
        zapp3(
            service3("boss"),
            service3("helper", total_count=5, essential_count=2, startup_order=1),
            service3("front", monitor=True, startup_order=2),
        )
    )
    boss, helper, front = found.data["services"]
    assert [(one["core"], one.get("elastic", 0), one.get("after", [])) for one in (boss, helper, front)] == [
        (1, 0, []),
        (2, 3, ["boss"]),
        (1, 0, ["boss", "helper"]),
    ]
    assert front["main"] and front["restart"] == {"policy": "never"}
    assert "main" not in boss and "restart" not in boss
    assert found.data["class"] == "batch" and found.data["name"] == "lab"


def test_resources_become_mb_and_vcores() -> None:
    found = converted(zapp3(service3("a")))
    assert found.data["services"][0]["resources"] == {"memory_mb": 1024, "vcores": 2}
    assert "services[0].resources.memory.min: is not carried over; YARN reserves the maximum" in found.warnings
    nothing = {"memory": {"min": None, "max": None}, "cores": {"min": None, "max": None}, "shm": 4096}
    found = converted(zapp3(service3("a", resources=nothing)))
    assert found.data["services"][0]["resources"] == {"memory_mb": 1024, "vcores": 1}
    assert "services[0].resources.memory: there is none; 1024 MB are assumed" in found.warnings
    assert "services[0].resources.shm: is not carried over" in found.warnings


def test_hosts_and_users_become_variables_and_parameters() -> None:
    environment = [
        ["OWN", "{dns_name#self}"],
        ["BOSS", 'url://{dns_name#boss0}:7/"$x"'],
        ["SECOND", "{dns_name#boss1}"],
        ["USER", "{user_name} in {execution_name}"],
        ["GONE", "{dns_name#nobody0}"],
        ["PLAIN", "42"],
    ]
    found = converted(zapp3(service3("boss", total_count=2), service3("front", environment=environment)))
    front = found.data["services"][1]
    assert front["after"] == ["boss"]
    assert front["environment"] == {"USER": "${parameters.user-name} in ${parameters.execution-name}", "PLAIN": "42"}
    assert front["command"] == (
        'export OWN="$QUICKSILVER_HOST"; export BOSS="url://${BOSS_HOST}:7/\\"\\$x\\""; '
        'export SECOND="$(echo $BOSS_HOSTS | cut -d, -f2)"; serve'
    )
    assert list(found.data["parameters"]) == ["user-name", "execution-name"]
    assert any(one.startswith("services[1].environment: GONE: {dns_name#nobody0} is not") for one in found.warnings)


def test_services_that_name_each_other_do_not_wait_for_each_other() -> None:
    first = service3("first", environment=[["OTHER", "{dns_name#second0}"]])
    second = service3("second", environment=[["OTHER", "{dns_name#first0}"]])
    found = converted(zapp3(first, second))
    assert [one.get("after", []) for one in found.data["services"]] == [["second"], []]
    assert any(one.startswith("services[1].environment: OTHER: ") for one in found.warnings)


def test_a_command_of_the_image_becomes_a_parameter() -> None:
    found = converted(zapp3(service3("db", command=None, work_dir="/my data")))
    assert found.data["services"][0]["command"] == "cd '/my data' && ${parameters.command-db}"
    assert template_from_data(found.data).check().to_give == ("command-db",)
    assert any("give parameter command-db" in one for one in found.warnings)


def test_ports_become_named_ports_with_links() -> None:
    ports = [
        {"name": "Web page", "port_number": 80, "protocol": "tcp", "url_template": "http://{ip_port}/"},
        {"name": "Web page!", "port_number": 81, "protocol": "tcp", "url_template": "https://{ip_port}/lab"},
        {"name": "9 Proxied", "port_number": 82, "protocol": "tcp", "url_template": "http://{ip_port}{proxy_path}"},
        {"name": "other", "port_number": 83, "protocol": "udp", "url_template": "ftp://{ip_port}"},
    ]
    found = converted(zapp3(service3("a", ports=ports)))
    assert found.data["services"][0]["ports"] == [
        {"name": "web-page", "number": 80, "link": "http"},
        {"name": "web-page-2", "number": 81, "link": "https/lab"},
        {"name": "proxied", "number": 82, "link": "http"},
        {"name": "other", "number": 83},
    ]
    wanted = ("ports[2].url_template: {proxy_path}", "ports[3].protocol: udp", "ports[3].url_template: 'ftp:")
    for text in wanted:
        assert any(f"services[0].{text}" in one for one in found.warnings), text


def test_what_has_no_counterpart_is_named() -> None:
    service = service3("a", volumes=[{"name": "v", "path": "/d"}], network="n", labels=["ssd", "gpu"], replicas=2)
    found = converted(zapp3(service, size=512, will_end=False, name="My Lab"))
    assert (found.data["name"], found.data["title"], found.data["class"]) == ("my-lab", "My Lab", "interactive")
    for key in (
        "services[0].volumes",
        "services[0].network",
        "services[0].labels",
        "services[0].replicas",
        "size",
        "will_end",
    ):
        assert any(one.startswith(f"{key}:") for one in found.warnings), key
    assert converted(zapp3(service3("a", labels=["gpu"]))).data["services"][0]["constraints"] == {"label": "gpu"}


def test_version_2_has_other_names() -> None:
    port = {"name": "page", "port_number": 8888, "protocol": "http", "path": "/tree", "is_main_endpoint": True}
    service = {"name": "book", "docker_image": "lab/book", "required_resources": {"memory": 2**31}, "monitor": True}
    service |= {"total_count": 3, "essential_count": 1, "ports": [port], "environment": [], "networks": ["n"]}
    data = {"name": "book", "version": 2, "will_end": False, "priority": 512, "services": [service]}
    found = converted(data | {"disable_autorestart": True, "requires_binary": True})
    book = found.data["services"][0]
    assert (book["image"], book["resources"]) == ("lab/book", {"memory_mb": 2048, "vcores": 1})
    assert (book["core"], book["elastic"]) == (1, 2)
    assert book["ports"] == [{"name": "page", "number": 8888, "link": "http/tree"}]
    for key in ("priority", "requires_binary", "services[0].networks", "services[0].ports[0].is_main_endpoint"):
        assert any(one.startswith(f"{key}:") for one in found.warnings), key


def test_version_1_has_one_instance_of_each_service() -> None:
    services = [
        {
            "name": f"rank{number}",
            "docker_image": "lab/mpi",
            "required_resources": {"memory": -1},
            "monitor": number == 1,
        }
        for number in range(2)
    ]
    found = converted({"name": "mpi", "version": 1, "will_end": True, "services": services})
    assert [(one["core"], one.get("main", False)) for one in found.data["services"]] == [(1, False), (1, True)]
    assert found.data["services"][0]["resources"]["memory_mb"] == 1024


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([1], "zapp.json:1: description: must be a mapping, got [1]; write `key: value` lines below it"),
        (
            {"zapps": []},
            "zapp.json:2: zapps: is a manifest of Zoe's shop, which lists ZApps; name the file of a ZApp itself",
        ),
        (
            zapp3(service3("a"), version=4),
            "zapp.json:3: version: 4 is no version of ZApps that is known; write 1, 2 or 3",
        ),
        (zapp3(), "zapp.json:6: services: is empty; write at least one entry"),
        (
            zapp3(service3("a", essential_count=2)),
            "services[0].essential_count: 2 is more than total_count, 1; lower it",
        ),
        (
            zapp3(service3("a", image="")),
            "services[0].image: is missing; add `image`, or `docker_image` in versions 1 and 2",
        ),
        (zapp3(service3("a", environment=[["A"]])), "services[0].environment[0]: is no [name, value]; write two texts"),
        (
            zapp3(service3("a", total_count="2")),
            "services[0].total_count: must be a whole number, got '2'; write digits",
        ),
    ],
)
def test_a_wrong_zapp_gives_one_clear_error(data: Any, expected: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        convert_text(json.dumps(data, indent=1), "zapp.json")
    (line,) = caught.value.lines
    assert expected in line and line.startswith("zapp.json:")


def test_names_get_our_form_and_stay_unique() -> None:
    names = ServiceNames(["Web UI", "web-ui", "0", "x" * 60, "x" * 50])
    assert [names.of(number) for number in range(5)] == ["web-ui", "web-ui-2", "app", "x" * 40, f"{'x' * 36}-2"]
    assert ServiceNames(["a", "a1"]).counted("a10") == (1, 0)
    assert ServiceNames(["a"]).counted("b0") == (None, 0)
