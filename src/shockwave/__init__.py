"""Shockwave: a scheduler for shared GPU clusters that plans ahead."""
