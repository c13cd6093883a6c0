"""Exact match counts what a model writes by itself, to the end of the sequence."""

from __future__ import annotations

from dataclasses import replace

import torch

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.tasks.seq2seq import SequenceToSequence
from small_batches import PAIRS, pair_batch
from small_models import exact_model


class TestExactMatch:
    def measured(self, model: Architecture, batch: Batch) -> dict[str, float]:
        task = SequenceToSequence().bind(PAIRS)
        task.measure("test", model.eval(), batch)
        return task.results("test")

    def written(self, model: Architecture, batch: Batch, length: int) -> list[list[int]]:
        """Decode greedily, running the whole prefix again for each token, one sample at a time."""
        rows = []
        for row in range(batch.num_samples):
            source, valid = batch.tokens[row : row + 1], batch.valid[row : row + 1]
            prefix = [PAIRS.bos_id]
            while len(prefix) <= length:
                logits = model(tokens=source, valid=valid, decoder_tokens=torch.tensor([prefix]))
                prefix.append(int(logits[0, -1].argmax()))
                if prefix[-1] == PAIRS.eos_id:
                    break
            rows.append(prefix[1:])
        return rows

    def test_counts_the_samples_that_the_model_writes_by_itself(self) -> None:
        model, batch = exact_model("encoder_decoder").eval(), pair_batch(8)
        outputs = self.written(model, batch, 6)
        targets = torch.full((8, 7), IGNORED)
        for row, output in enumerate(outputs):
            # What it writes, right for the even rows and wrong in the first token for the odd.
            right = output if row % 2 == 0 else [output[0] ^ 1, *output[1:]]
            targets[row, : len(right)] = torch.tensor(right)
        read = torch.cat([torch.full((8, 1), PAIRS.bos_id), targets[:, :-1]], dim=1).clamp(min=0)
        results = self.measured(model, replace(batch, targets=targets, decoder_tokens=read, decoder_valid=None))
        assert results["exact_match"] == 0.5

    def test_a_missing_or_early_end_of_sequence_is_no_match(self) -> None:
        model, batch = exact_model("encoder_decoder").eval(), pair_batch(4)
        outputs = self.written(model, batch, 5)
        assert all(PAIRS.eos_id not in output for output in outputs), "the random model should run on"
        targets = torch.full((4, 4), IGNORED)
        for row, output in enumerate(outputs):
            targets[row, :3] = torch.tensor(output[:3])
            targets[row, 3] = PAIRS.eos_id
        read = torch.cat([torch.full((4, 1), PAIRS.bos_id), targets[:, :-1]], dim=1)
        results = self.measured(model, replace(batch, targets=targets, decoder_tokens=read, decoder_valid=None))
        assert results["exact_match"] == 0.0
        assert results["token_accuracy"] == 0.75

    def test_the_true_prefix_is_never_given(self) -> None:
        model, batch = exact_model("encoder_decoder").eval(), pair_batch(6)
        misled = replace(batch, decoder_tokens=torch.full_like(batch.decoder_tokens, 9))
        assert self.measured(model, batch)["exact_match"] == self.measured(model, misled)["exact_match"]
        assert self.measured(model, batch)["loss"] != self.measured(model, misled)["loss"]
