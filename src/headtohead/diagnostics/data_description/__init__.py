"""Files of the user's are described: what they hold, and how they are trained on."""
