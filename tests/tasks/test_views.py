"""Causal and masked language modelling view a batch as documented."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.multi_token_prediction import MultiTokenPrediction
from small_batches import LANGUAGE, NEXT, language_batch, sentence_pair_batch
from small_models import exact_model, small_model


class TestCausalView:
    def test_targets_are_the_next_tokens(self) -> None:
        batch = Batch(rows=torch.arange(1), tokens=torch.tensor([[7, 8, 9, 10]]))
        seen = CausalLanguageModelling().view(batch, seed=0, epoch=0)
        assert seen.tokens.tolist() == [[7, 8, 9]]
        assert seen.targets.tolist() == [[8, 9, 10]]

    def test_padding_is_never_a_target(self) -> None:
        valid = torch.tensor([[True, True, False, False]])
        batch = Batch(rows=torch.arange(1), tokens=torch.tensor([[7, 8, 0, 0]]), valid=valid)
        seen = CausalLanguageModelling().view(batch, seed=0, epoch=0)
        assert seen.targets.tolist() == [[8, IGNORED, IGNORED]]
        assert seen.valid.tolist() == [[True, False, False]], "what only ends a row is not read"

    def test_no_document_predicts_the_next_one(self) -> None:
        segments, positions = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 1, 0, 1]])
        batch = Batch(
            rows=torch.arange(1), tokens=torch.tensor([[7, 8, 9, 10]]), segments=segments, positions=positions
        )
        seen = CausalLanguageModelling().view(batch, seed=0, epoch=0)
        assert seen.targets.tolist() == [[8, IGNORED, 10]]
        assert seen.positions.tolist() == [[0, 1, 0]]

    def test_given_targets_are_left_alone(self) -> None:
        tokens, targets = torch.tensor([[7, 8, 9]]), torch.tensor([[IGNORED, IGNORED, 4]])
        batch = Batch(rows=torch.arange(1), tokens=tokens, targets=targets)
        assert CausalLanguageModelling().view(batch, seed=0, epoch=0) is batch

    @pytest.mark.parametrize("task", [CausalLanguageModelling, MultiTokenPrediction])
    def test_a_labelled_text_is_read_as_the_text_without_its_label(self, task: type[CausalLanguageModelling]) -> None:
        labelled = sentence_pair_batch()
        text = replace(labelled, targets=None)
        seen = task(without_labels=True).bind(replace(NEXT, num_classes=None)).view(labelled, seed=0, epoch=0)
        usual = task().bind(LANGUAGE).view(text, seed=0, epoch=0)
        assert labelled.targets is not None and labelled.targets.ndim == 1
        for name in ("tokens", "targets", "valid", "token_types"):
            assert torch.equal(getattr(seen, name), getattr(usual, name)), name

    def test_labelled_texts_have_no_bits_per_byte_to_be_judged_by(self) -> None:
        with pytest.raises(UsageError, match="labelled texts do not count: choose loss"):
            CausalLanguageModelling(monitor="bits_per_byte", without_labels=True).bind(NEXT)

    def test_bits_per_byte_divide_the_loss_by_the_text_behind_the_targets(self) -> None:
        task, model = CausalLanguageModelling().bind(LANGUAGE), exact_model("decoder_only").eval()
        seen = task.view(replace(language_batch(), num_bytes=torch.tensor(123)), seed=0, epoch=0)
        task.measure("validation", model, seen)
        results = task.results("validation")
        num_tokens = int((seen.targets != IGNORED).sum())
        assert abs(results["bits_per_byte"] - results["loss"] * num_tokens / math.log(2) / 123) < 1e-12
        alike = task.measured_baseline("validation")["bits_per_byte"]
        assert alike == pytest.approx(task.baseline(LANGUAGE)["loss"] * num_tokens / math.log(2) / 123)

    def test_bits_per_byte_are_left_out_where_bytes_are_unknown(self) -> None:
        task, model = CausalLanguageModelling().bind(LANGUAGE), exact_model("decoder_only").eval()
        task.measure("validation", model, task.view(language_batch(), seed=0, epoch=0))
        assert "bits_per_byte" not in task.results("validation")
        assert "bits_per_byte" not in task.measured_baseline("validation")


class TestMaskedView:
    spec = DataSpec(kind="language", vocab_size=1000)

    def batch(self, num_rows: int = 400, length: int = 128) -> Batch:
        tokens = torch.randint(0, 1000, (num_rows, length), generator=torch.Generator().manual_seed(0))
        valid = torch.arange(length).expand(num_rows, -1) < length - 8
        return Batch(rows=torch.arange(num_rows), tokens=tokens, valid=valid)

    def test_shares_are_those_of_bert(self) -> None:
        batch = self.batch()
        seen = MaskedLanguageModelling().bind(self.spec).view(batch, seed=3, epoch=1)
        chosen = seen.targets != IGNORED
        open_to_choice = batch.valid & (batch.tokens >= self.spec.num_special_ids)
        assert abs(chosen.sum() / open_to_choice.sum() - 0.15) < 0.005
        became, was = seen.tokens[chosen], batch.tokens[chosen]
        assert abs((became == self.spec.mask_id).float().mean() - 0.8) < 0.015
        assert abs((became == was).float().mean() - 0.1) < 0.015
        replaced = became[(became != self.spec.mask_id) & (became != was)]
        assert replaced.min() >= self.spec.num_special_ids and replaced.max() < 1000
        assert len(replaced.unique()) > 300

    def test_only_chosen_tokens_change_and_targets_are_what_they_were(self) -> None:
        batch = self.batch()
        seen = MaskedLanguageModelling().bind(self.spec).view(batch, seed=3, epoch=1)
        chosen = seen.targets != IGNORED
        assert torch.equal(seen.tokens[~chosen], batch.tokens[~chosen])
        assert torch.equal(seen.targets[chosen], batch.tokens[chosen])

    def test_special_tokens_and_padding_are_never_chosen(self) -> None:
        batch = self.batch()
        seen = MaskedLanguageModelling(mask_rate=1.0).bind(self.spec).view(batch, seed=3, epoch=1)
        chosen = seen.targets != IGNORED
        assert torch.equal(chosen, batch.valid & (batch.tokens >= self.spec.num_special_ids))

    def test_the_same_text_is_corrupted_alike_wherever_the_special_tokens_are(self) -> None:
        """A run written for other libraries and read back names its special tokens one by one."""
        batch, first = self.batch(), self.spec.num_special_ids
        ours = MaskedLanguageModelling().bind(self.spec).view(batch, seed=3, epoch=1)
        for special in (range(first), (0, 1, 3, 500, 999)):
            words = [token for token in range(1000) if token not in special]
            moved = torch.tensor([*special, *words])
            ids = {"num_special_ids": 0, "special_ids": tuple(special), "mask_id": special[self.spec.mask_id]}
            listed = MaskedLanguageModelling().bind(replace(self.spec, **ids))
            seen = listed.view(replace(batch, tokens=moved[batch.tokens]), seed=3, epoch=1)
            assert torch.equal(seen.tokens, moved[ours.tokens])
            assert torch.equal(seen.targets != IGNORED, ours.targets != IGNORED)

    def test_masks_follow_the_row_and_not_its_position_in_a_batch(self) -> None:
        task, batch = MaskedLanguageModelling().bind(self.spec), self.batch(8)
        whole = task.view(batch, seed=3, epoch=1)
        order = torch.tensor([5, 2, 7])
        part = task.view(batch.map(lambda tensor: tensor[order]), seed=3, epoch=1)
        assert torch.equal(part.tokens, whole.tokens[order])

    def test_another_epoch_or_seed_masks_other_tokens(self) -> None:
        task, batch = MaskedLanguageModelling().bind(self.spec), self.batch(8)
        views = [task.view(batch, seed=seed, epoch=epoch).targets for seed, epoch in ((3, 1), (3, 2), (4, 1))]
        assert not torch.equal(views[0], views[1]) and not torch.equal(views[0], views[2])

    def test_the_head_runs_on_masked_rows_only(self) -> None:
        task, model = MaskedLanguageModelling().bind(LANGUAGE), small_model("encoder_only")
        seen = task.view(language_batch(64), seed=3, epoch=1)
        rows = []
        model.head.dense.register_forward_hook(lambda *call: rows.append(len(call[-1])))
        task.loss(model, seen)
        assert rows == [int((seen.targets != IGNORED).sum())]

    def test_a_task_without_data_says_what_to_call(self) -> None:
        with pytest.raises(ValueError, match=r"call bind\(spec\)"):
            MaskedLanguageModelling().view(language_batch(), seed=0, epoch=0)
