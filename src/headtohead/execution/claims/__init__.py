"""Claims say which worker does which run: by leases in the folder, or in a PostgreSQL that a group already has."""
