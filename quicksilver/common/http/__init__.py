"""REST on both sides: servers, clients, who may call, certificates and tokens."""
