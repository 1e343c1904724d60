"""What exists: jobs, clusters, events, and what a scheduler may see of them."""
