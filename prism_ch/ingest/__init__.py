"""Brings flow records and topologies from files into the database, which parses the records."""
