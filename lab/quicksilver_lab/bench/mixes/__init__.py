"""`quicksilver bench mixes`: real mixes of jobs under stock YARN and quicksilver, with a bound beside each."""
