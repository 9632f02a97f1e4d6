"""The nouns that stages pass to one another: immutable, checked once, free of IO."""
