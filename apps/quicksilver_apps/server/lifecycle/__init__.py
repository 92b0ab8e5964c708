"""Applications on their way: admission by quota, submission, what YARN and the masters say, kills."""
