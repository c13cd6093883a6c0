"""Artifacts, as W&B's client uploads them: versions of a collection, each with its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from wandb_server.operations import Operation, Runs


@dataclass
class ServedArtifact:
    """`sent` is what the client said of it; its files lie with those of its run, below `position`."""

    run: str
    sent: dict[str, Any]
    is_whole: bool = False

    @property
    def name(self) -> str:
        return str(self.sent["artifactCollectionName"])

    @property
    def position(self) -> str:
        return f"artifacts/{self.name}/"


class Artifacts:
    """`held` are all of them, by id."""

    def __init__(self) -> None:
        self.held: dict[str, ServedArtifact] = {}
        self._numbers = count()
        """One for each artifact: the client may make two at once, each answered by a thread of its own."""
        self.operations: Mapping[str, Operation] = {
            "ServerFeaturesQuery": self._features,
            "CreateArtifact": self._create,
            "CreateArtifactManifest": self._manifest,
            "UpdateArtifactManifest": self._manifest,
            "CreateArtifactFiles": self._files,
            "CommitArtifact": self._commit,
        }

    def _features(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def _create(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        message = sent["input"]
        key = f"artifact{next(self._numbers)}"
        self.held[key] = ServedArtifact(message["runName"], message)
        made = {"id": key, "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": made}}

    def _manifest(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        """Its id is that of the artifact."""
        key = sent.get("artifactID") or sent["artifactManifestID"]
        file = {"id": key, "uploadUrl": self._address(url, key, "manifest"), "uploadHeaders": []}
        answer = {"artifactManifest": {"id": key, "file": file}}
        return {"createArtifactManifest": answer, "updateArtifactManifest": answer}

    def _files(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        nodes = [
            {
                "storagePath": file["name"],
                "uploadUrl": self._address(url, file["artifactID"], file["name"]),
                "uploadHeaders": [],
                "uploadMultipartUrls": None,
                "artifact": {"id": file["artifactID"]},
            }
            for file in sent["input"]["artifactFiles"]
        ]
        return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}

    def _commit(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        self.held[sent["artifactID"]].is_whole = True
        return {"commitArtifact": {"artifact": {"id": sent["artifactID"], "digest": ""}}}

    def _address(self, url: str, key: str, name: str) -> str:
        artifact = self.held[key]
        return f"{url}/upload/{artifact.run}/{artifact.position}{name}"
