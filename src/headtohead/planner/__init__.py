"""The planner estimates what runs cost before they start: FLOPs, time per step and disk space."""
