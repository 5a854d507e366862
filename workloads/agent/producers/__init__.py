"""Producers: raw requests, librdkafka, the background stream, transactions. Run in an agent."""
