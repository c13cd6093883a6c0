"""The doctor's checks, each a function from the patient to a finding."""
