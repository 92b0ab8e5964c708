"""Policies that choose nodes for the containers of one request together."""
