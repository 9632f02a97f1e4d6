"""What steps would take: the execution graph of a job's steps, and its replay with a cause taken out or put in."""
