"""Starts servers for the tests: a fresh Lakestream, or the real Apache Kafka as its peer."""
