"""The places of applications in the queues of nodes, while their containers wait at the proxy."""
