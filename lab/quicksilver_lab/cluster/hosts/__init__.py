"""A cluster of many hosts on one machine: namespaces with addresses, names and routes of their own, in racks."""
