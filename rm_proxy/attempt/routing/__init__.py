"""Which containers of an attempt go guaranteed or queueable, and on which node."""
