"""A Docker daemon of one's own in a private folder: no registry, no network set up, nothing left afterwards."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from quicksilver_lab.workloads.errors import WorkloadError

PROGRAMS: Final = ("dockerd", "containerd", "runc", "docker")
BUSYBOX_IMAGE: Final = "quicksilver/busybox"
_BUSYBOX: Final = ("/bin/busybox", "/usr/bin/busybox")
_APPLETS: Final = ("sh", "cat", "dd", "echo", "head", "kill", "ls", "sleep", "stress", "touch", "true", "wc", "yes")
_LONGEST_FOLDER: Final = 60
"""The daemon makes sockets below the folder, whose paths must stay under 108 bytes."""
_START_S: Final = 30.0
_STOP_S: Final = 30.0
_CALL_S: Final = 60.0
_HARD_CODED: Final = ("/run/containerd/s", "/run/containerd", "/run/docker/plugins", "/run/docker")
"""Folders that daemons create whatever their settings are."""


def missing() -> str:
    """Return why no daemon can run here, "" when one can."""
    if os.geteuid() != 0:
        return "a Docker daemon needs root"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"{', '.join(absent)} not found: install docker.io"
    return "" if _busybox() else "no busybox found: install busybox-static"


class Dockerd:
    """One daemon; `start` and `stop` may be called again, `close` leaves nothing behind."""

    def __init__(self, folder: Path, *, live_restore: bool = False, storage_driver: str = "vfs") -> None:
        """Prepare. storage_driver: vfs works everywhere, overlay2 is quicker to build images with."""
        self.folder = folder.resolve()
        if len(str(self.folder)) > _LONGEST_FOLDER:
            raise WorkloadError(
                f"a path of over {_LONGEST_FOLDER} characters is too long for the daemon's sockets",
                place=str(self.folder),
                remedy="choose a shorter one",
            )
        self.socket = self.folder / "docker.sock"
        self.log = self.folder / "dockerd.log"
        self.cgroup_parent = f"/{self.folder.name}-{os.getpid()}"
        self._live_restore, self._storage_driver = live_restore, storage_driver
        self._process: subprocess.Popen[bytes] | None = None
        self._not_mine = {path for path in _HARD_CODED if Path(path).exists()}

    @property
    def url(self) -> str:
        """Return what DOCKER_HOST wants."""
        return f"unix://{self.socket}"

    @property
    def docker_cli_env(self) -> dict[str, str]:
        """Return the environment with which `docker` talks to this daemon."""
        return {"DOCKER_HOST": self.url, "DOCKER_CONFIG": str(self.folder / "cli")}

    @property
    def pid(self) -> int | None:
        """Return the daemon's process id, None while it does not run."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the daemon and wait until it answers. Raises WorkloadError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "daemon.json"
        config.write_text(json.dumps({"deprecated-key-path": str(self.folder / "key.json")}))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command(config), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until_s = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until_s:
                tail = self.log.read_text(errors="replace").splitlines()[-3:]
                raise WorkloadError("the Docker daemon does not run: " + " / ".join(tail), place=str(self.log))
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the daemon; containers end with it, unless `live_restore`. Raises WorkloadError when it does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait()
            raise WorkloadError(f"the Docker daemon did not end within {_STOP_S:g} s", place=str(self.log)) from error
        finally:
            self._process = None

    def kill(self) -> None:
        """End the daemon as SIGKILL does; containers and containerd go on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End daemon and containers; remove mounts, cgroups and files."""
        try:
            for pid in _processes_in(self.cgroup_parent):  # else the daemon waits for each container's own end
                _kill(pid)
            self.stop()
        finally:
            self._end_processes()
            self._clean_up()

    def docker(self, *arguments: str, stdin: bytes = b"", timeout_s: float = _CALL_S) -> str:
        """Run `docker ARGUMENTS` and return its output. Raises WorkloadError when it fails."""
        command = ["docker", *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, env={**os.environ, **self.docker_cli_env}, timeout=timeout_s
        )
        if done.returncode != 0:
            message = done.stderr.decode(errors="replace").strip()
            raise WorkloadError(f"`{' '.join(command[:4])}` failed: {message}", place=self.url)
        return done.stdout.decode().strip()

    def import_image(self, name: str = BUSYBOX_IMAGE, files: Mapping[str, Path] | None = None) -> str:
        """Make an image of a static busybox and `files` (path in the image to file here), and return its name.

        Raises WorkloadError.
        """
        busybox = _busybox()
        if not busybox:
            raise WorkloadError("no busybox found", remedy="install busybox-static")
        self.docker("import", "-", name, stdin=_image_tar({"bin/busybox": Path(busybox), **(files or {})}))
        return name

    def _command(self, config: Path) -> list[str]:
        command = ["dockerd", f"--config-file={config}", f"--host={self.url}", f"--pidfile={self.folder / 'pid'}"]
        command += [f"--data-root={self.folder / 'data'}", f"--exec-root={self.folder / 'exec'}"]
        command += [f"--cgroup-parent={self.cgroup_parent}", "--exec-opt=native.cgroupdriver=cgroupfs"]
        command += [f"--storage-driver={self._storage_driver}", "--bridge=none"]
        command += ["--shutdown-timeout=1", "--log-level=warn"]
        command += [f"--{option}=false" for option in ("iptables", "ip6tables", "ip-forward", "ip-masq")]
        return [*command, "--live-restore"] if self._live_restore else command

    def _answers(self) -> bool:
        if not self.socket.exists():
            return False
        env = {**os.environ, **self.docker_cli_env}
        done = subprocess.run(["docker", "version"], capture_output=True, env=env, timeout=_CALL_S)
        return done.returncode == 0

    def _clean_up(self) -> None:
        _unmount_below(self.folder)
        for group in _groups(self.cgroup_parent):
            _remove(group)
        shutil.rmtree(self.folder)
        for path in _HARD_CODED:
            if path not in self._not_mine:
                _remove(Path(path))

    def _end_processes(self) -> None:
        """End what outlived the daemon: its containerd, the shims, processes of containers."""
        own = str(self.folder / "exec" / "containerd")
        processes = [process for process in psutil.process_iter(["cmdline"]) if _names(process.info["cmdline"], own)]
        pids = {process.pid for process in processes} | set(_processes_in(self.cgroup_parent))
        sockets = [path for process in processes for path in _sockets(process)]
        for pid in pids:
            _kill(pid)
        psutil.wait_procs(processes, timeout=_STOP_S)
        until_s = time.monotonic() + _STOP_S
        while _processes_in(self.cgroup_parent) and time.monotonic() < until_s:
            time.sleep(0.02)
        for path in sockets:
            path.unlink(missing_ok=True)


@contextmanager
def running_dockerd(folder: Path, *, live_restore: bool = False, storage_driver: str = "vfs") -> Iterator[Dockerd]:
    """Run a Docker daemon in `folder`, which is removed afterwards, for the time of a with block.

    Containers get no network but `none` and `host`. Raises WorkloadError when it cannot run here.
    """
    why = missing()
    if why:
        raise WorkloadError(why, place="Docker")
    daemon = Dockerd(folder, live_restore=live_restore, storage_driver=storage_driver)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()


def _busybox() -> str:
    return next((path for path in _BUSYBOX if Path(path).is_file()), "")


def _image_tar(files: Mapping[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        parents = {str(parent) for name in files for parent in Path(name).parents} - {"."}
        for name in sorted({"bin", "tmp", *parents}):  # Docker lets nobody but root into one that is left out
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name, path in files.items():
            tar.add(path.resolve(), name)
        for name in _APPLETS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def _names(cmdline: Sequence[str] | None, path: str) -> bool:
    return bool(cmdline) and any(path in word for word in cmdline or ())


def _sockets(process: psutil.Process) -> list[Path]:
    """Return the socket files of a shim, which it cannot remove when it is killed."""
    try:
        names = [str(connection.laddr) for connection in process.net_connections("unix")]
    except psutil.NoSuchProcess:
        return []
    return [Path(name) for name in names if name.startswith(_HARD_CODED[0])]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _mounts() -> list[tuple[str, str]]:
    """Return mount points and their file system types."""
    lines = Path("/proc/mounts").read_text().splitlines()
    return [(words[1].replace("\\040", " "), words[2]) for words in map(str.split, lines)]


def _unmount_below(folder: Path) -> None:
    below = [where for where, _ in _mounts() if where.startswith(f"{folder}/")]
    for where in sorted(below, key=len, reverse=True):
        subprocess.run(["umount", "--lazy", where], check=True, timeout=_CALL_S)


def _groups(name: str) -> list[Path]:
    """Return the groups of this name and those below, in every hierarchy, the deepest first."""
    tops = [Path(where) / name.lstrip("/") for where, kind in _mounts() if kind in ("cgroup", "cgroup2")]
    return [Path(at) for top in tops for at, _, _ in os.walk(top, topdown=False)]


def _processes_in(name: str) -> list[int]:
    pids: set[int] = set()
    for group in _groups(name):
        try:
            pids.update(int(line) for line in (group / "cgroup.procs").read_text().split())
        except FileNotFoundError:  # gone between finding and reading
            continue
    return sorted(pids)


def _remove(folder: Path) -> None:
    """Remove an empty folder; one that is gone, or that somebody uses, is left as it is."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EBUSY):
            raise
