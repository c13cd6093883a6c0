"""The schema says what each key of a configuration may hold, read from constructors' source code without importing
them."""
