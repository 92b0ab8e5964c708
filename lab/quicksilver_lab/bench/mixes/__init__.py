"""Real mixes of jobs, their figures and goals, with a bound beside each."""
