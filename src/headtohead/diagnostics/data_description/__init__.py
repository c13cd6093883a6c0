"""What a file of the user's holds, and how it is trained on."""
