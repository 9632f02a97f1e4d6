"""Jobs that stand still, stood still or began anew; exporters that fell silent."""
