"""`acked soak`: load for a long time, faults with quiet stretches between them, and a rolling judgement.

Runs in the process of the command, which enters the lab. Imports the battery of assessments, the grammar of
searches, and the body of steps.
"""
