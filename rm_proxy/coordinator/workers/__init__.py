"""The coordinator of one of several workers (lab/docs/architecture.md): what it passes on to the others, and takes."""
