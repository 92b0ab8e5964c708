"""The service with users, history, quotas and pages."""
