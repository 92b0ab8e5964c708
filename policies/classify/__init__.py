"""Which class a job is of: short or long."""
