"""The matrix of what ran: frameworks, types of containers, and what ends while a job runs."""
