"""What the web pages of our servers have in common: templates, static files, login of browsers, rendered answers.

A server's package has `templates/` and `static/` of its own beside these; a file of the same name goes before.
"""
