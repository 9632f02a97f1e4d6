"""Where each training step ends, and the phases inside it (LLMPrism, sections IV-C and IV-D)."""
