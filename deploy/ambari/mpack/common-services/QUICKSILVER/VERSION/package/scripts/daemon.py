"""A daemon of quicksilver as a component of Ambari: systemd runs it. Python 2.7 and 3: the agent's."""

from resource_management.core.exceptions import ComponentIsNotRunning
from resource_management.core.resources.system import Execute, File
from resource_management.core.shell import call
from resource_management.core.source import InlineTemplate
from resource_management.libraries.script.script import Script


class Daemon(Script):
    """A component whose work is a unit."""

    unit = ""

    def install(self, env):
        """Install the package from the repositories of the host."""
        self.install_packages(env)

    def configure(self, env):
        """Write the settings; with a mistake in them the old ones stay, and the command fails."""
        import params

        env.set_params(params)
        checked = params.settings + ".new.yaml"
        File(checked, content=InlineTemplate(params.content), mode=0o644)
        Execute((params.program, "policy", "check", checked), sudo=True)
        Execute(("mv", checked, params.settings), sudo=True)

    def start(self, env, upgrade_type=None):
        """Start the unit, now and at each boot."""
        self.configure(env)
        Execute(("systemctl", "enable", "--now", self.unit), sudo=True)

    def stop(self, env, upgrade_type=None):
        """Stop the unit."""
        Execute(("systemctl", "disable", "--now", self.unit), sudo=True)

    def status(self, env):
        """Raise ComponentIsNotRunning when the unit does not run."""
        if call(("systemctl", "is-active", "--quiet", self.unit), sudo=True)[0]:
            raise ComponentIsNotRunning()
