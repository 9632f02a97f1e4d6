"""What each pair of endpoints exchanges, who forms a group, and which pipeline stage comes first."""
