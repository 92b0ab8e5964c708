"""The papers' systems and the production machines under a virtual clock, on traces of jobs."""
