"""Parts that all daemons share: messages between proxy and sidecars, Hadoop's configuration, settings, logs, REST."""
