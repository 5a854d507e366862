"""The hand-written histories: small, each with the one thing that is wrong with it, and why.

Every test that needs a history with a known anomaly takes it from here. `messages` has those about messages
and logs, `readers` those about what readers and groups received, `transactions` those about transactions.
"""
