"""The component QUICKSILVER_PROXY."""

from daemon import Daemon


class Proxy(Daemon):
    """Before the ResourceManager's scheduler."""

    unit = "quicksilver-proxy.service"


if __name__ == "__main__":
    Proxy().execute()
