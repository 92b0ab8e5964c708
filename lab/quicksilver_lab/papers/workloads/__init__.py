"""What the papers offered to their schedulers: drawn jobs by seed."""
