"""Arms of equal cost: what each must be to meet the baseline's budget, by the exact ledger."""
