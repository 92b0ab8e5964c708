"""Application masters hear of containers that will be killed, and of nodes that are emptied."""
