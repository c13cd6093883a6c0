"""A stand-in for the hub on this machine: the few addresses that its client asks for, served from folders.

What it answers is what the client reads (https://huggingface.co/docs/hub/api): a repository's files, card and commit
under /api/datasets, the files under /resolve with the commit, the ETag and the size in their headers.
"""

from hub_server.serving import HubServer, hub_of

__all__ = ["HubServer", "hub_of"]
