"""Container images of proxy, sidecar and a stock Hadoop, and a cluster of them on one host (docker/)."""
