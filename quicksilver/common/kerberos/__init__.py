"""Kerberos for clients: a login from a keytab, and SPNEGO."""
