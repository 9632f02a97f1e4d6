"""Steps that take longer than usual, and whom the others waited for."""
