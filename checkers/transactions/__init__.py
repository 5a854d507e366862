"""What became of transactions: what applications were told, what the logs decided, where the two differ.

`told` condenses the answers to the applications. `checkers.partition.decisions` finds the markers that
decided the records of one partition. `fates` puts both together, and `findings` explains what is wrong.
"""
