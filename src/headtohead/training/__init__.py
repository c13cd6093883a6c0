"""One run, trained with Lightning: the only package that imports it."""
