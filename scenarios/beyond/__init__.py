"""Cases that no article describes: controls, operators, clients, other kinds of faults.

Bodies run in the harness's process. Imports what `scenarios` may import.
"""
