"""Runs for the doctor, small enough to be examined in a second, and what it finds of them."""

from __future__ import annotations

from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.diagnostics.doctor import CHECKS, Finding, Patient, chosen, examine

SMALL = ["data.num_validation=10", "data.num_test=10", "data.batch_size=16"]
DECODER = ["data.num_train=200", "data.context_length=32", *SMALL]
ENCODER = ["model=encoder_only", "task=masked_lm", *DECODER]
CLASSIFIER = ["model=encoder_only", "task=classification", "data=sentence_grammar", "data.num_train=300", *SMALL]
TAGGER = ["model=encoder_only", "task=tagging", "data=tagging_grammar", "data.num_train=300", *SMALL]
QUESTIONS = ["model=encoder_only", "task=span_qa", "data=qa_grammar", "data.num_train=300", *SMALL]
SCORES = ["model=encoder_only", "task=similarity", "data=similarity_grammar", "data.num_train=300", *SMALL]
PAIRS = ["model=encoder_only", "task=classification", "data=pair_grammar", "data.num_train=300", *SMALL]
TRANSLATOR = ["model=encoder_decoder", "task=seq2seq", "data=number_words", "data.num_train=300", *SMALL]
IMAGES = ["model=vision_transformer", "task=image_classification", "data=digits"]
RECALL = ["data=associative_recall", "data.num_train=300", *SMALL]
QUICK = [*CLASSIFIER, "model.d_model=16", "data.batch_size=8"]
MIXER = "model.mixer._target_=planted_faults."
CROSS = "model.cross._target_=planted_faults."
NORM = "model.norm._target_=planted_faults."
STRUCTURE = tuple(check.name for check in CHECKS if check.name not in ("learning_rate", "overfitting"))


def patient(overrides: list[str]) -> Patient:
    own = ["tracking=none", "trainer.accelerator=cpu", "trainer.threads=1"]
    return Patient(build_parts(compose_checked("train", [*overrides, *own])))


def findings(overrides: list[str], *names: str) -> dict[str, Finding]:
    return {result.check.name: result.finding for result in examine(patient(overrides), chosen(names))}


def faults(result: dict[str, Finding]) -> list[str]:
    return [name for name, finding in result.items() if finding.verdict == "fault"]
