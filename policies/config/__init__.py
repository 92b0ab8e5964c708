"""The `policies:` section of quicksilver.yaml: schema, registry of policies, and the policy set that results."""
