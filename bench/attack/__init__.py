"""Attacks a service of its own on loopback, and prints what held."""
