"""The round loop, leases and the journal: pure, with the executor passed in."""
