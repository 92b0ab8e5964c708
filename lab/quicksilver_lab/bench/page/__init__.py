"""A benchmark's result as one self-contained page, and as Markdown: data in, text out."""
