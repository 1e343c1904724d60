"""The small program that runs one gang and outlives the scheduler.

It is started as a process of its own, with the standard library and nothing else, so that it
is up in milliseconds and takes little memory beside every gang. Therefore the modules in here
import each other and :mod:`shockwave.protocol`, and nothing else of the package.
"""
