"""A proxy of several processes (`proxy.workers`): a supervisor, a front that accepts, and workers.

Each application belongs to one worker, and each node reports to one; the workers pass news on to each other.
"""
