"""The component QUICKSILVER_SIDECAR."""

from daemon import Daemon


class Sidecar(Daemon):
    """Beside a NodeManager."""

    unit = "quicksilver-sidecar.service"


if __name__ == "__main__":
    Sidecar().execute()
