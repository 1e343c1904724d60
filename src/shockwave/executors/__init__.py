"""Where jobs run: virtual time today, real processes and clusters behind the same four verbs."""
