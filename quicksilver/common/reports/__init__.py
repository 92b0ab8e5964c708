"""Reports of a sidecar as frames on one kept connection: the frames, and what of a report they carry."""
