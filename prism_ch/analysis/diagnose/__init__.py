"""What slows or stops a job (LLMPrism, section V)."""
