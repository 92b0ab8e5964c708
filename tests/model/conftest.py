"""Profiles of the model test; pytest reads them before it looks at --hypothesis-profile."""

from hypothesis import settings

settings.register_profile("long", max_examples=5000, stateful_step_count=100, deadline=None)
settings.register_profile(
    "hunt", max_examples=1000, stateful_step_count=30, deadline=None, report_multiple_bugs=False, print_blob=True
)
