"""`quicksilver demo`: one job on plain YARN and through quicksilver."""
