"""Ranks that compute for longer than others of their role, or than before."""
