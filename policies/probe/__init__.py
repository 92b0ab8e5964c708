"""Policies for the nodes on which an application reserves turns in the queue."""
