"""Brings flow records and topologies from files into the database; ClickHouse does the parsing of records."""
