"""First settings of a host: quicksilver.yaml, certificates and tokens."""
