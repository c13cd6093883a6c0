"""Checks the shapes in the signatures of what is made of tensors, in all tests, and lets no probe fail in silence."""

import signal

from jaxtyping import install_import_hook

from strict_probe import PROBER, refuse_warnings

# Of the tasks only the functions on tensors: beartype cannot check a method that returns Self on its own.
CHECKED = ["components", "architectures", "tasks.chunked_cross_entropy", "tasks.vocabulary"]

install_import_hook([f"headtohead.{name}" for name in CHECKED], "beartype.beartype")
PROBER.addFilter(refuse_warnings)
# A shell starts what it puts in the background with Ctrl-C ignored, and what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
