"""Policies for the nodes in whose queues an application gets places."""
