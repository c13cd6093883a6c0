"""`python -m headtohead` is `h2h`: for torchrun and others that start Python modules."""

import sys

if __name__ == "__main__":
    # `python -m` puts the working folder first, where a yaml.py would hide the installed one; `main` appends it
    if not sys.flags.safe_path:
        del sys.path[0]
    from headtohead.cli import main

    sys.exit(main())
