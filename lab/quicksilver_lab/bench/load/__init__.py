"""A process that loads proxy or ResourceManager with application masters, and measures what they see."""
