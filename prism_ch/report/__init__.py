"""Turns results into something a person reads."""
