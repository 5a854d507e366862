"""Article 000: what each partition between AZs does to a Kafka cluster with three AZs."""
