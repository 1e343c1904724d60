"""The scheduler as a service: state that survives, an HTTP API, metrics."""
