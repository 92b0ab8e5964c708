"""Apollo (OSDI '14): a job manager for each job, a process node on each server, a resource monitor for all."""
