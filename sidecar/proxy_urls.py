"""Where the proxies of a cluster take REST, by its Hadoop configuration."""

from __future__ import annotations

from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.hadoop.conf import HadoopConf, reachable

PROXY_PORT: Final = 8390


def proxy_urls(conf: HadoopConf, scheme: str) -> list[str]:
    """Return the URLs of the proxies: one on the host of each ResourceManager."""
    rm_ids = conf.rm_ids() if conf.ha else [None]
    hosts = [conf.rm_address("yarn.resourcemanager.scheduler.address", rm_id).host for rm_id in rm_ids]
    return [f"{scheme}://{reachable(Address(host, PROXY_PORT))}" for host in dict.fromkeys(hosts)]
