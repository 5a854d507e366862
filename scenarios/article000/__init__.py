"""Article 000: what each partition between AZs does to a Kafka cluster with three AZs.

Bodies run in the harness's process. Imports what `scenarios` may import.
"""
