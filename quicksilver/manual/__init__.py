"""The manual without a network: pages of docs/ in the terminal, a manual page, completion for shells."""
