"""Finished runs can be evaluated, generate text, be probed, embed texts and be exported."""
