"""Lets `python -m prism_ch` be the command line."""

import sys

from prism_ch.cli import main

sys.exit(main())
