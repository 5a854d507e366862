"""The agent's producers: raw requests, librdkafka, background streams, transactions; and their outcomes."""
