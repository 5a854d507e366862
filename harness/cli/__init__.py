"""The command line: reads arguments, calls the other rooms, prints what they return, sets the exit code."""
