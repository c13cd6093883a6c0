"""Head to Head: settle questions about neural-network architectures."""
