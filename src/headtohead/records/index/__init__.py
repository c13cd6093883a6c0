"""An index of run folders in the user's cache: it answers as the records do, and reads only those that changed."""
