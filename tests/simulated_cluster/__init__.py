"""A cluster of simulated machines on which the real claims, records and planner run, event by event and repeatable.

Time is compressed: workers pretend to train, and everything that waits is an event. Each file operation of a lease may
pause, and while it does all other processes go on, so that what may happen between two system calls does happen.
"""
