"""Cases that no article tells: controls, operators, clients, other kinds of faults."""
