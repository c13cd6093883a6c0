"""From a configuration to built parts: composed, every key checked, impossible combinations refused, then made."""
