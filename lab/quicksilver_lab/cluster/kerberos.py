"""Kerberos for a local cluster: a KDC of its own on a loopback port, keytabs, and Hadoop's settings for them.

Everything lies in the cluster's folder; nothing of the machine's own Kerberos is read or changed.
"""

import getpass
import grp
import os
import secrets
import shutil
import socket
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from requests.auth import AuthBase

from quicksilver.common.kerberos.keytab import Keytab
from quicksilver.common.kerberos.login import Negotiate
from quicksilver_lab.cluster.errors import KerberosSetupError, MissingToolError
from quicksilver_lab.cluster.siteconf import Properties
from quicksilver_lab.cluster.spec import MASTER, ClusterSpec

REALM: Final = "QUICKSILVER.TEST"
REMEDY: Final = "apt-get install -y krb5-kdc krb5-admin-server krb5-user"
SERVICES: Final = ("hdfs", "yarn", "mapred")
PRODUCT: Final = "quicksilver"
"""The user that proxy and sidecars log in as."""
_TOOLS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/lib/mit/sbin"
_TIMEOUT_S: Final = 60.0


class Kerberos:
    """The realm of one cluster."""

    def __init__(self, spec: ClusterSpec) -> None:
        """Name the files below `spec.workdir`, which must be absolute."""
        self.spec = spec
        self.root = spec.workdir / "kerberos"
        self.conf = self.root / "krb5.conf"
        self._database = self.root / "principal"

    @property
    def env(self) -> dict[str, str]:
        """What a program of MIT Kerberos needs in its environment."""
        return {"KRB5_CONFIG": str(self.conf), "KRB5_KDC_PROFILE": str(self.root / "kdc.conf")}

    @property
    def kdc_argv(self) -> tuple[str, ...]:
        """The command line of the KDC, which stays in the foreground."""
        return (tool("krb5kdc"), "-n")

    def keytab(self, user: str) -> Path:
        """Return the keytab of a service or a user."""
        return self.root / f"{user}.keytab"

    def prepare(self) -> None:
        """Write the configuration; the first time make the database and all keytabs. The KDC need not run.

        Raises MissingToolError, KerberosSetupError.
        """
        for name in _TOOLS:
            tool(name)
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)
        self.conf.write_text(_krb5_conf(self.spec))
        (self.root / "kdc.conf").write_text(_kdc_conf(self.spec, self._database))
        if self._database.exists():
            return
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", secrets.token_urlsafe(24))
        for name in SERVICES:
            self._add(name, f"{name}/{MASTER}")
        hosts = [MASTER, *(node.host for node in self.spec.node_addresses)]
        self._add("HTTP", *(f"HTTP/{host}" for host in hosts))
        for user in (PRODUCT, getpass.getuser()):
            self._add(user, user)
        secret = self.root / "http.secret"
        secret.write_text(secrets.token_urlsafe(32))
        secret.chmod(0o600)

    def tickets(self, user: str) -> Path:
        """Return a fresh credential cache of a user, who is added to the realm if necessary.

        Raises KerberosSetupError.
        """
        if not self.keytab(user).exists():
            self._add(user, user)
        cache, fresh = self.root / f"tickets-{user}", self.root / f"tickets-{user}.{secrets.token_hex(4)}"
        self.run("kinit", "-k", "-t", str(self.keytab(user)), "-c", f"FILE:{fresh}", f"{user}@{REALM}")
        fresh.replace(cache)
        return cache

    def client_env(self, user: str | None) -> dict[str, str]:
        """Return an environment with new tickets of a user; None: of the user who runs this."""
        tickets = self.tickets(user or getpass.getuser())
        return {**self.env, "KRB5CCNAME": f"FILE:{tickets}", "JAVA_TOOL_OPTIONS": realm_option(self.conf)}

    def is_up(self) -> bool:
        """Return whether the KDC takes connections."""
        try:
            socket.create_connection(self.spec.kdc, timeout=1.0).close()
        except OSError:
            return False
        return True

    def _add(self, file: str, *principals: str) -> None:
        keytab = self.keytab(file)
        for principal in principals:
            self.run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
            self.run("kadmin.local", "-r", REALM, "-q", f"ktadd -q -k {keytab} {principal}")
        if not keytab.exists():  # kadmin.local ends with 0 whatever a query came to
            raise KerberosSetupError(f"kadmin.local made no {keytab}. Delete {self.root} and start again.")
        keytab.chmod(0o600)

    def run(self, name: str, *arguments: str) -> None:
        """Run a program of MIT Kerberos on this realm. Raises MissingToolError, KerberosSetupError."""
        argv = [tool(name), *arguments]
        env = os.environ | self.env
        try:
            done = subprocess.run(
                argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise KerberosSetupError(f"{name}: not done after {_TIMEOUT_S:g} s") from error
        if done.returncode != 0:
            raise KerberosSetupError(f"{name}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")


def web_auth(spec: ClusterSpec) -> AuthBase | None:
    """Return a login at the web servers of a secure cluster, as who runs this; None for others.

    KRB5_CONFIG of this process then names this cluster's realm.
    """
    if not spec.kerberos:
        return None
    realm = Kerberos(spec)
    os.environ["KRB5_CONFIG"] = str(realm.conf)
    return Negotiate(_logins(getpass.getuser(), realm.keytab(getpass.getuser())))


@cache
def _logins(user: str, keytab: Path) -> Keytab:
    return Keytab(f"{user}@{REALM}", keytab)


def tool(name: str) -> str:
    """Return the path of a program of MIT Kerberos. Raises MissingToolError naming the packages."""
    path = shutil.which(name, path=_PATH)
    if path is None:
        raise MissingToolError(f"{name} is not there; a cluster with kerberos=True needs it. Install it: {REMEDY}")
    return path


def _krb5_conf(spec: ClusterSpec) -> str:
    """No DNS; TCP for everything, so that a full buffer loses nothing."""
    return f"""\
[libdefaults]
  default_realm = {REALM}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  ticket_lifetime = {spec.ticket_life_s:g}s
  permitted_enctypes = aes256-cts-hmac-sha1-96
[realms]
  {REALM} = {{
    kdc = {spec.kdc}
  }}
[domain_realm]
  {MASTER} = {REALM}
"""


def _kdc_conf(spec: ClusterSpec, database: Path) -> str:
    return f"""\
[kdcdefaults]
  kdc_listen = {spec.kdc}
  kdc_tcp_listen = {spec.kdc}
[realms]
  {REALM} = {{
    database_name = {database}
    key_stash_file = {database.with_name("stash")}
    acl_file = {database.with_name("kadm5.acl")}
    max_life = {spec.ticket_life_s:g}s
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
  }}
[logging]
  kdc = STDERR
"""


def jvm_options(spec: ClusterSpec, native: Path) -> list[str]:
    """Return what every JVM of a secure cluster needs besides; none without Kerberos.

    native: folder of libhadoop.so, without which Hadoop refuses to serve map outputs and logs in secure mode.
    """
    if not spec.kerberos:
        return []
    return [realm_option(Kerberos(spec).conf), f"-Djava.library.path={native}"]


def realm_option(conf: Path) -> str:
    """Return the JVM option that names a realm's krb5.conf in place of the machine's."""
    return f"-Djava.security.krb5.conf={conf}"


def core_site(spec: ClusterSpec) -> Properties:
    """Return what core-site.xml has besides."""
    if not spec.kerberos:
        return {}
    kerberos = Kerberos(spec)
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.http.authentication.signature.secret.file": str(kerberos.root / "http.secret"),
        "hadoop.http.authentication.kerberos.keytab": str(kerberos.keytab("HTTP")),
        "hadoop.http.authentication.kerberos.principal": "*",
        f"hadoop.proxyuser.{getpass.getuser()}.hosts": "*",  # who runs this may act as any user
        f"hadoop.proxyuser.{getpass.getuser()}.users": "*",
        **(_SPNEGO if spec.spnego else {}),
    }


_SPNEGO: Final[Properties] = {
    "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
    "hadoop.http.authentication.type": "kerberos",
    "hadoop.http.authentication.simple.anonymous.allowed": "false",
}


def hdfs_site(spec: ClusterSpec) -> Properties:
    """Return what hdfs-site.xml has besides; data of HDFS goes in the clear over ports that are not privileged."""
    if not spec.kerberos:
        return {}
    keytab, http = str(Kerberos(spec).keytab("hdfs")), f"HTTP/_HOST@{REALM}"
    return {
        "dfs.block.access.token.enable": "true",
        "dfs.namenode.kerberos.principal": f"hdfs/_HOST@{REALM}",
        "dfs.namenode.keytab.file": keytab,
        "dfs.datanode.kerberos.principal": f"hdfs/_HOST@{REALM}",
        "dfs.datanode.keytab.file": keytab,
        "dfs.namenode.kerberos.internal.spnego.principal": http,
        "dfs.web.authentication.kerberos.principal": http,
        "dfs.web.authentication.kerberos.keytab": str(Kerberos(spec).keytab("HTTP")),
        "dfs.permissions.superusergroup": grp.getgrgid(os.getgid()).gr_name,
        "ignore.secure.ports.for.testing": "true",
    }


def yarn_site(spec: ClusterSpec) -> Properties:
    """Return what yarn-site.xml has besides."""
    if not spec.kerberos:
        return {}
    realm = Kerberos(spec)
    keytab, option = str(realm.keytab("yarn")), realm_option(realm.conf)
    roles = ("resourcemanager", "nodemanager")
    return {
        # the JVMs of containers, whose options are each framework's own, know the realm as those of a host would
        "yarn.nodemanager.admin-env": f"MALLOC_ARENA_MAX=$MALLOC_ARENA_MAX,JAVA_TOOL_OPTIONS={option}",
        **{f"yarn.{role}.principal": f"yarn/_HOST@{REALM}" for role in roles},
        **{f"yarn.{role}.keytab": keytab for role in roles},
        "yarn.acl.enable": "true",
        "yarn.admin.acl": f"yarn,mapred,{PRODUCT},{getpass.getuser()}",
    }


def mapred_site(spec: ClusterSpec) -> Properties:
    """Return what mapred-site.xml has besides."""
    if not spec.kerberos:
        return {}
    return {
        "mapreduce.jobhistory.principal": f"mapred/_HOST@{REALM}",
        "mapreduce.jobhistory.keytab": str(Kerberos(spec).keytab("mapred")),
    }
