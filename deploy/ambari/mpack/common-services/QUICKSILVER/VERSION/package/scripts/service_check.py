"""The service check: the proxy answers, and says whether something is degraded."""

from resource_management.core.resources.system import Execute
from resource_management.libraries.script.script import Script


class ServiceCheck(Script):
    """Found by metainfo.xml."""

    def service_check(self, env):
        """Fail when something is degraded."""
        import params

        env.set_params(params)
        Execute(
            (params.program, "health"),
            sudo=True,
            environment={"QUICKSILVER_CONFIG": params.settings},
            tries=3,
            try_sleep=5,
        )


if __name__ == "__main__":
    ServiceCheck().execute()
