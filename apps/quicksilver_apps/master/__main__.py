"""`python3 quicksilver-app.zip`: the application master; `.. launch LOG_DIR`: the launcher of an instance."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Run what the arguments say; return the exit status."""
    if len(sys.argv) == 3 and sys.argv[1] == "launch":
        from quicksilver_apps.master.launcher import launcher

        return launcher.main(Path(sys.argv[2]))
    if len(sys.argv) > 1:
        print("usage: quicksilver-app.zip [launch LOG_DIR]; YARN starts it.", file=sys.stderr)
        return 2
    from quicksilver_apps.master import process

    return process.main()


if __name__ == "__main__":
    sys.exit(main())
