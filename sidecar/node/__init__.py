"""The containers of a node, as a machine: which run, which wait, which have to go."""
