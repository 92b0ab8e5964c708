"""Containers that the proxy grants itself: master keys of the nodes, and the tokens that are made with them."""
