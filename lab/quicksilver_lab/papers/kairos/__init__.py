"""Kairos with slots alone: nodes that share cores by attained service, and the central queue (thesis chapter 4)."""
