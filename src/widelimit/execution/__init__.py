"""Long work: which blocks there are, who runs them, where results go."""
