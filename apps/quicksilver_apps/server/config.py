"""Settings of the app server: section `app_server` of quicksilver.yaml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, SecretStr

from policies.settings_model import SettingsModel
from quicksilver.common.address import Address, AddressText

SECTION: Final = "app_server"
_SYSTEM: Final = (Path("/var/lib/quicksilver/app-server"), Path("/var/lib/quicksilver"))


class Quota(SettingsModel):
    """Bounds of one user; what is not set is not bounded here."""

    applications: int | None = Field(None, ge=0, le=100_000)
    """Applications of a user at YARN at once; further ones wait in the state `queued` (own)."""
    memory_mb: int | None = Field(None, ge=0)
    """Memory of core instances and masters of a user's applications at YARN together (own)."""
    vcores: int | None = Field(None, ge=0)
    """vcores of core instances and masters of a user's applications at YARN together (own)."""
    elastic: int | None = Field(None, ge=0)
    """Elastic instances of a user's applications at YARN together, as described (own)."""
    waiting: int | None = Field(None, ge=0)
    """Applications of a user that may wait; further submissions are answered with 429 (own)."""

    def over(self, wider: Quota) -> Quota:
        """Return this quota, with what it leaves open from a wider one."""
        return Quota(**(wider.model_dump(exclude_none=True) | self.model_dump(exclude_none=True)))


class Quotas(SettingsModel):
    """Quotas: those of a user go before those of a role, these before the default."""

    default: Quota = Quota()
    """Quota of everybody."""
    roles: dict[Literal["user", "admin"], Quota] = Field({})
    """Quotas of the users of a role."""
    users: dict[str, Quota] = Field({})
    """Quotas of single users."""

    def of(self, user: str, role: str) -> Quota:
        """Return the quota in force for a user who submits in a role."""
        by_role = {str(name): quota for name, quota in self.roles.items()}.get(role, Quota())
        return self.users.get(user, Quota()).over(by_role.over(self.default))


class AppServerSettings(SettingsModel):
    """The admin's settings of `quicksilver app-server`; each has a default."""

    rest_listen: AddressText = Address("127.0.0.1", 8393)
    """REST, metrics and pages."""
    ui_base_path: str = Field("", pattern=r"^((/[A-Za-z0-9._~-]+)+)?$")
    """Prefix under which browsers see the server behind a web proxy that sends no X-Forwarded-Prefix (own)."""
    store_url: SecretStr | None = None
    """SQLAlchemy URL, such as postgresql://user:password@host/database; default app-server.db in
    /var/lib/quicksilver/app-server or /var/lib/quicksilver, whichever is writable, else in the working directory."""
    staging: str = ""
    """Where files of applications are uploaded, each user's in a folder of the own, such as hdfs:///shared/quicksilver
    of mode 1777; "": .quicksilver in the home directory of the submitting user (own)."""
    queue: str = ""
    """YARN queue of descriptions that name none; "": the one that the cluster's placement rules find (own)."""
    open_user: str = Field("", max_length=100)
    """Without a token file: the user as whom applications are submitted; "": the user of this process (own)."""

    max_description_kb: int = Field(256, ge=1, le=16_384)
    """The longest description that is read, in units of 1,024 bytes (own)."""
    max_waiting: int = Field(5000, ge=1, le=1_000_000)
    """Applications that may wait for their submission; further ones are answered with 429 and Retry-After (own)."""
    retry_after_s: int = Field(10, ge=1, le=3600)
    """What Retry-After says (own)."""
    submissions: int = Field(4, ge=1, le=64)
    """Submissions to YARN that are on their way at once (own)."""
    submit_timeout_s: float = Field(120.0, gt=0, le=3600)
    """How long one submission may take, with the upload of its files; it is then looked up and tried again (own)."""
    submit_attempts: int = Field(20, ge=1, le=1000)
    """Tries of one submission that YARN did not answer before it counts as failed (own)."""

    poll_s: float = Field(2.0, ge=0.1, le=60)
    """How often the states of applications are read from the ResourceManager (own)."""
    master_poll_s: float = Field(2.0, ge=0.1, le=60)
    """How often each running application's master is asked for its services (own)."""
    master_timeout_s: float = Field(5.0, gt=0, le=60)
    """How long a call of a master may take (own)."""
    masters: int = Field(16, ge=1, le=256)
    """Masters that are asked at once (own)."""
    lost_after_s: float = Field(60.0, ge=1, le=86_400)
    """Time for which YARN has to answer without knowing an application before it counts as lost (own)."""
    kill_grace_s: float = Field(10.0, ge=0, le=600)
    """Time that a master gets to end its application in order before YARN is asked to kill it (own)."""

    keep_days: float = Field(30.0, gt=0, le=3650)
    """How long ended applications and their history are kept (own)."""
    max_instances: int = Field(2000, ge=1, le=100_000)
    """Instances of one application whose history is kept, the newest (own)."""
    max_templates: int = Field(1000, ge=1, le=100_000)
    """Templates that may be stored (own)."""
    template_versions: int = Field(50, ge=1, le=10_000)
    """Versions of a template that are kept, the newest (own)."""
    event_clients: int = Field(100, ge=1, le=10_000)
    """Clients of the event stream at once; further ones are answered with 429 (own)."""
    event_queue: int = Field(1000, ge=1, le=100_000)
    """Events that may wait for one client; one that reads slower is disconnected, and goes on where it stopped when it
    connects anew (own)."""
    max_log_kb: int = Field(1024, ge=1, le=65_536)
    """Part of a log file that one answer has at most, in units of 1,024 bytes (own)."""
    rest_connections: int = Field(2000, ge=1)
    """REST connections at once."""

    quotas: Quotas = Quotas()
    """Quotas by user and role."""

    @property
    def store(self) -> str:
        """The store's URL, with its default."""
        if self.store_url is not None:
            return self.store_url.get_secret_value()
        folder = next((folder for folder in _SYSTEM if folder.is_dir() and os.access(folder, os.W_OK)), None)
        return f"sqlite:///{folder / 'app-server.db'}" if folder else "sqlite:///app-server.db"
