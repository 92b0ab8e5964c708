"""A campaign of faults: daemons killed, connections cut and slowed while real jobs run, and what may not come of it."""
