"""Replicas of the systems that papers simulate, for `quicksilver simulate --system`: they show what a paper claims."""
