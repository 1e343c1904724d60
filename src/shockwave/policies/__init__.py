"""How to decide: view and forecast in, decision out; one policy a file."""
