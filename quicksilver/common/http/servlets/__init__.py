"""Pages that every Hadoop daemon has, for our daemons: /conf, /jmx, /logLevel, /stacks, /healthz, /readyz."""
