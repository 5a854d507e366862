"""One run: from a scenario to a run folder and its judgement.

Runs in the harness's process, inside the lab's namespaces where there are any. Imports the clients, the
nemesis, the checkers and the harness; nothing above them.
"""
