"""What in a cluster would break quicksilver, found by itself: facts are collected, then judged by pure checks."""
