"""`quicksilver bench run`: experiments on the emulated cluster, each a plan (YAML), a result (JSON) and its page."""
