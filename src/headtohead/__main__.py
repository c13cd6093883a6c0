"""`python -m headtohead` is `h2h`: for torchrun and others that start Python modules."""

import sys

from headtohead.cli import main

if __name__ == "__main__":
    sys.exit(main())
