"""Figures as one self-contained page or as Markdown: data in, text out."""
