"""Studies: many runs that answer one question; planned, shared among workers, resumed, reported."""
