"""Which endpoints train one model together, and since when (LLMPrism, section IV-A)."""
