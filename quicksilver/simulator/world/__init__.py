"""Clusters under the virtual clock: YARN's own scheduling, and the production machines of proxy and sidecars."""
