"""Draws results as inline SVG for pages without script: charts in, markup out; knows no database."""
