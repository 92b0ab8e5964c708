"""`quicksilver demo`: short jobs beside a long one, on plain YARN and through quicksilver."""
