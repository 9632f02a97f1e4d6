"""What is wrong at one place in one stretch of time, over all jobs."""
