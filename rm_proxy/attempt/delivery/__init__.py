"""How granted containers, and news of them, reach the application master."""
