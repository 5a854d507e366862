"""The command line `acked`, a module per command.

Each reads its arguments, calls the other packages, prints what they return with `report`, and sets the exit
code. Runs in the process that the user starts; `acked run` also in the lab's namespaces. May import every
package; no other package imports it.
"""
