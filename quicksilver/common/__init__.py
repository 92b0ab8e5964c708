"""What the shells share: messages between proxy and sidecars, Hadoop's configuration, settings, logs, REST."""
