"""The manual without a network: pages of docs/ and lab/docs/ in the terminal, a manual page, completion for shells."""
