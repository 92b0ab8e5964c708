"""How the program starts, stands by, is watched, and logs."""
