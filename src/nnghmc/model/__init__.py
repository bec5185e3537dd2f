"""What is sampled: a posterior, the density behind it, and where models come from."""
