"""Invalid configurations are refused in one sentence with the field, the value, the choices or the fix."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

import headtohead as h2h
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema import key_checks

KEYS = {
    "optimizer.lrr=1": ["optimizer.lrr is not a field of optimizer=adamw", "did you mean optimizer.lr?"],
    "+typo=1": ["typo is not a field of the run", "its fields are", "seed"],
    "lr=0.1": ["lr is not a field of the run", "did you mean optimizer.lr?"],
    "sed=1": ["sed is not a field of the run", "did you mean seed?"],
    "num_heads=2": ["num_heads is not a field of the run", "did you mean model.num_heads?"],
    "model.num_head=2": ["model.num_head is not a field of model=decoder_only", "did you mean model.num_heads?"],
    "model.qk_norm=true": ["model.qk_norm is not a field", "did you mean model.mixer.qk_norm?"],
    "model.mixer.qknorm=true": ["model.mixer.qknorm is not a field", "did you mean model.mixer.qk_norm?"],
    "trainer.max_step=3": ["trainer.max_step is not a field of trainer=auto", "did you mean trainer.max_steps?"],
    "trainer.steps=3": ["trainer.steps is not a field"],
    "data.batchsize=3": ["data.batchsize is not a field of data=grammar_lm", "did you mean data.batch_size?"],
    "task.smoothing=0.1": ["task.smoothing is not a field", "did you mean task.label_smoothing?"],
    "tracking.modus=offline": ["tracking.modus is not a field", "did you mean tracking.mode?"],
    "schedule.warmups=3": ["schedule.warmups is not a field of schedule=cosine", "did you mean schedule.warmup?"],
    "checkpointing.kinds=3": ["checkpointing.kinds is not a field", "did you mean checkpointing.kind?"],
    "optimzer=adam": ["optimzer is not a field of the run", "did you mean optimizer?"],
    "~seed": ["seed is missing"],
    "~data": ["data is missing"],
    "model.mixer.d_model=8": ["model.mixer.d_model is refused", "the model gives it", "set model.d_model"],
    "model.norm.d_model=8": ["model.norm.d_model is refused", "set model.d_model"],
    "model.head=classifier": ["model.head is refused", "the task gives it"],
    "optimizer.model=1": ["optimizer.model is refused", "the run gives it"],
}
VALUES = {
    "optimizer.lr=abc": ["optimizer.lr=abc", "a number"],
    "optimizer.lr=true": ["optimizer.lr=true", "a number"],
    "optimizer.lr=null": ["optimizer.lr=null", "a number"],
    "optimizer.lr=inf": ["optimizer.lr=inf", "a number"],
    "optimizer.lr=-1": ["optimizer.lr=-1", "at least 0"],
    "optimizer.lr=[1,2]": ["optimizer.lr=[1, 2]", "a number"],
    "optimizer.betas=[0.9]": ["optimizer.betas=[0.9]", "a list of 2"],
    "optimizer.betas=[0.9,1.5]": ["optimizer.betas=[0.9, 1.5]", "below 1"],
    "optimizer.betas=0.9": ["optimizer.betas=0.9", "a list of 2"],
    "optimizer.fused=maybe": ["optimizer.fused=maybe", "true or false or null"],
    "seed=1.5": ["seed=1.5", "a whole number"],
    "seed=-1": ["seed=-1", "at least 0"],
    "seed=one": ["seed=one", "a whole number"],
    "seed=": ["seed=''", "a whole number"],
    "trainer.max_steps=-3": ["trainer.max_steps=-3", "at least 0"],
    "trainer.max_steps=ten": ["trainer.max_steps=ten", "a whole number"],
    "trainer.strategy=dp": ["trainer.strategy=dp", "single or ddp"],
    "trainer.accelerator=tpu": ["trainer.accelerator=tpu", "auto or cpu or gpu"],
    "trainer.compile=1": ["trainer.compile=1", "true or false"],
    "trainer.num_samples=-1": ["trainer.num_samples=-1", "at least 0"],
    "trainer.gradient_clip=-1": ["trainer.gradient_clip=-1", "above 0"],
    "model.dropout=1.0": ["model.dropout=1.0", "below 1"],
    "model.dropout=x": ["model.dropout=x", "a number"],
    "model.num_layers=0": ["model.num_layers=0", "at least 1"],
    "model.num_layers=2.5": ["model.num_layers=2.5", "a whole number"],
    "model.vocab_size=0": ["model.vocab_size=0", "at least 1"],
    "model.tie_weights=yes_please": ["model.tie_weights=yes_please", "true or false"],
    "model.pooling=max": ["model.pooling=max", "cls or mean or last"],
    "model.mixer.bias=3": ["model.mixer.bias=3", "true or false"],
    "model.feedforward.activation=gelou": ["model.feedforward.activation=gelou", "gelu"],
    "model.position.pairing=quarter": ["model.position.pairing=quarter", "half or interleaved"],
    "model.position.fraction=0": ["model.position.fraction=0", "above 0"],
    "checkpointing.kind=some": ["checkpointing.kind=some", "none or full or every_k or attention or offload"],
    "precision.name=8-bit": ["precision.name=8-bit", "32-true"],
    "tracking.mode=loud": ["tracking.mode=loud", "auto or online or offline or none"],
    "tags=a": ["tags=a", "a list"],
    "name=1.5": ["name=1.5", "text"],
    "data.batch_size=0": ["data.batch_size=0", "at least 1"],
    "data.seed=-1": ["data.seed=-1", "at least 0 and at most 4294967295"],
    "data.batch_size=many": ["data.batch_size=many", "a whole number"],
}
CHOICES = {
    "model=transformer": ["model=transformer does not exist", "decoder_only"],
    "model/mixer=atention": ["model/mixer=atention does not exist", "softmax_attention"],
    "precision=32": ["precision=32 does not exist", "did you mean 32-true?"],
    "optimizer=adamv": ["optimizer=adamv does not exist", "did you mean adam"],
    "task=casual_lm": ["task=casual_lm does not exist", "did you mean causal_lm?"],
    "data=nothing": ["data=nothing does not exist", "choose from"],
    "experiment=nothing": ["experiment=nothing"],
    "+task=causal_lm": ["task is chosen already", "task=CHOICE without the plus"],
    "model/cross=softmax_attention": ["model/cross cannot be chosen here"],
    "model/position@model.decoder.position=none": ["model/position@model.decoder.position cannot be chosen here"],
    "model.mixer=softmax_attention": ["written with a slash", "model/mixer=softmax_attention"],
    "model.norm._target_=headtohead.tasks.causal_lm.CausalLanguageModelling": ["headtohead.components"],
    "model.norm._target_=headtohead.components.norms.Nothing": ["headtohead.components.norms defines no Nothing"],
    "model.norm._target_=no_such_package.Norm": ["there is no module no_such_package"],
    "model.norm._target_=Norm": ["it must name a class"],
}
GRAMMAR = {
    "optimizer.lr=1,2": ["optimizer.lr=1,2 holds several values", "optimizer.lr=[1,2]"],
    "tags=[1": ["could not be read", "quote"],
    "notes='half": ["could not be read", "quote"],
    "seed": ["'seed' has no value"],
    "optimizer.lr=${nothing}": ["nothing"],
}
COMBINATIONS = {
    "model.pattern=[a,b] +model/mixer@model.mixers.a=value_residual +model/mixer@model.mixers.b=value_residual "
    "model.mixers.b.num_kv_heads=1": [
        "model.mixers.a.num_kv_heads=null and model.mixers.b.num_kv_heads=1 make values of two shapes",
        "give both the same",
    ],
    "model/mixer=value_residual model.num_layers=1": [
        "with those of an earlier layer of its kind, and with model.num_layers=1 there is one",
        "give model.num_layers=2, or choose another mixer",
    ],
    "task=masked_lm": ["model=decoder_only sees only what stands before", "model=encoder_only", "task=causal_lm"],
    "model=vision_transformer": ["task=causal_lm cannot be done by model=vision_transformer", "image_classification"],
    "data=digits": ["task=causal_lm reads data of kind language", "data=digits is images", "data=grammar_lm"],
    "data=text": ["data=text", "data.path=FILE"],
    "data=mix data@data.sources.second=text": ["data@data.sources.second=text", "give data.sources.second.path=FILE"],
    "data=text_to_text data@data.of=csv task=seq2seq model=encoder_decoder": ["give data.of.path=FILE"],
    "model=encoder_decoder task=span_corruption data=mix data.sources.first.packing=none": [
        "data.sources.second.packing=apart lets documents share rows",
        "set data.sources.second.packing=stream",
    ],
    "task=masked_image_modeling": [
        "task=masked_image_modeling cannot be done by model=decoder_only",
        "choose model=vision_transformer",
    ],
    "task=masked_image_modeling data=digits model=vision_transformer augmentation=mixup": [
        "augmentation=mixup changes the classes of images",
        "task=image_classification",
    ],
    "task=masked_image_modeling data=digits model=vision_transformer augmentation=random_labels": [
        "augmentation=random_labels changes the classes",
    ],
    "task=image_classification data=digits model=mlp augmentation=cutmix data.batch_size=4 trainer.accumulate=4": [
        "augmentation=cutmix mixes pairs of neighbours",
        "data.batch_size=4 in 4 parts",
        "give a multiple of 8",
    ],
    "task=masked_image_modeling data=digits model=swin": ["cannot be done by model=swin", "task=image_classification"],
    "task=masked_image_modeling data=digits model=vision_transformer model/mixer=mlp_mixer": [
        "model/mixer=mlp_mixer goes by the order of tokens",
        "use model/mixer=softmax_attention",
    ],
    "task=masked_image_modeling data=digits model=vision_transformer model/mixer=bigbird": [
        "model/mixer=bigbird goes by the order of tokens",
    ],
    "task=masked_image_modeling data=digits model=vision_transformer model/local=short_conv": [
        "model/local=short_conv goes by the order of tokens",
        "use model/local=none",
    ],
    "task=masked_image_modeling data=digits model=vision_transformer model/feedforward=rwkv_channel_mix": [
        "model/feedforward=rwkv_channel_mix goes by the order of tokens",
        "use model/feedforward=gelu",
    ],
    "task=masked_image_modeling data=digits model=vision_transformer parametrisation=mup": [
        "parametrisation=mup cannot scale the decoder of task=masked_image_modeling",
        "parametrisation=standard",
    ],
    "task=classification": ["task=classification reads data of kind labelled_text", "data=grammar_lm is language"],
    "task.monitor=accuracy": ["task.monitor=accuracy is not a metric of task=causal_lm", "perplexity"],
    "task=tagging": ["task=tagging reads data of kind tagged_text", "data=grammar_lm is language", "tagging_grammar"],
    "task=span_qa data=qa_grammar model=encoder_decoder": [
        "task=span_qa cannot be done by model=encoder_decoder",
        "choose model=encoder_only or model=decoder_only, or task=",
    ],
    "task=span_qa data=sentence_grammar": [
        "reads data of kind questions",
        "sentence_grammar is labelled_text",
        "qa_grammar",
    ],
    "task=similarity": ["task=similarity reads data of kind scored_text", "data=similarity_grammar"],
    "task=similarity data=similarity_grammar model=encoder_decoder": [
        "task=similarity cannot be done by",
        "encoder_only",
    ],
    "task=similarity data=similarity_grammar model.pooling=cls": ["model.pooling=cls", "last or mean"],
    "task=span_qa data=qa_grammar task.num_candidates=0": ["task.num_candidates=0"],
    "task=causal_lm data=tagging_grammar": ["data=tagging_grammar is tagged_text", "or task=tagging"],
    "task=masked_lm_next_sentence data=pair_grammar": ["sees only what stands before", "model=encoder_only"],
    "task=tagging data=tagging_grammar task.monitor=f1": [
        "task.monitor=f1 is not a metric of task=tagging",
        "entity_f1",
    ],
    "model.num_heads=3": ["model.num_heads=3 does not divide model.d_model=64", "1, 2, 4"],
    "model.mixer.num_kv_heads=3": ["num_kv_heads=3 does not divide model.num_heads=4"],
    "model.num_heads=4 model.mixer.num_kv_heads=3": ["num_kv_heads=3 does not divide", "choose 1, 2, 4, or null"],
    "model.num_heads=64": ["model/position=rotary", "a multiple of 2", "a head has 1"],
    "model.position.fraction=0.01": ["model/position=rotary", "fraction"],
    "trainer.devices=2": ["trainer.devices=2 needs trainer=ddp"],
    "trainer=ddp data.batch_size=1": ["data.batch_size=1", "devices=2", "at least 2"],
    "trainer=ddp trainer.devices=16 data.batch_size=32 trainer.accumulate=3": ["data.batch_size=32", "at least 48"],
    "model/norm=batch_norm trainer.accumulate=2": ["model/norm=batch_norm", "trainer.accumulate=2", "layer_norm"],
    "model/feedforward=moe trainer.accumulate=4": ["trainer.accumulate=4", "model.feedforward.balance=micro_batch"],
    "model/position=rotary_2d": ["model/position=rotary_2d places the patches", "vision_transformer"],
    "model/position=sinusoidal model.d_model=63 model.num_heads=1": [
        "model/position=sinusoidal",
        "multiple of 2, not 63",
    ],
    "model/position=t5_bias model.position.num_buckets=3": ["num_buckets=3", "even"],
    "trainer=ddp trainer.accelerator=cpu model/norm=batch_norm": [
        "model/norm=batch_norm",
        "trainer.devices=2",
        "layer_norm",
    ],
    "trainer=fsdp precision=64-true": ["precision=64-true", "trainer=fsdp", "32-true, bf16-true, bf16-mixed"],
    "trainer=fsdp precision=bf16-true model/position=none model/mixer=s4d": [
        "model/mixer=s4d in float32",
        "bf16-mixed",
        "trainer=ddp",
    ],
    "trainer=fsdp precision=bf16-true model/position=none model/mixer=hyena": [
        "model/mixer=hyena in float32",
        "bf16-mixed",
        "trainer=ddp",
    ],
    "trainer=fsdp precision=16-mixed": ["precision=16-mixed", "trainer=ddp"],
    "optimizer=schedule_free": ["optimizer=schedule_free averages its weights", "schedule=constant", "schedule.warmup"],
    "optimizer=schedule_free schedule=constant trainer.weight_averaging=0.9": ["set it to null", "optimizer=adamw"],
    "optimizer=schedule_free schedule=constant model=ngpt": ["model.residual.unit_weights=true", "optimizer=adamw"],
    "optimizer=schedule_free schedule=constant trainer=fsdp": ["a second copy of all weights", "trainer=ddp"],
    "optimizer=soap trainer=fsdp": ["eigenvectors of whole gradients", "trainer=ddp"],
    "trainer=fsdp trainer.weight_averaging=0.9": ["trainer.weight_averaging=0.9", "set it to null", "trainer=ddp"],
    "trainer=fsdp trainer.compile=true": ["trainer.compile=true", "set it to false", "trainer=ddp"],
    "trainer=fsdp model/norm=batch_norm": ["model/norm=batch_norm", "trainer.devices=2", "layer_norm"],
    "trainer=fsdp data.batch_size=1": ["data.batch_size=1", "at least 2"],
    "trainer=tensor_parallel model.num_heads=1": [
        "trainer.tensor_parallel=2",
        "model.num_heads=1",
        "a multiple of 2",
        "trainer=fsdp",
    ],
    "trainer=tensor_parallel model.num_heads=4 model.mixer.num_kv_heads=1": ["model.mixer.num_kv_heads=1", "evenly"],
    "trainer=tensor_parallel trainer.devices=3 model.num_heads=4": ["trainer.devices=3", "give a multiple of it"],
    "trainer=tensor_parallel model.num_heads=4 model/position=alibi": ["model/position=alibi biases", "rotary"],
    "trainer=tensor_parallel model.num_heads=4 model.dropout=0.1": ["model.dropout=0.1", "the same noise", "to 0"],
    "trainer=ddp trainer.tensor_parallel=2": ["trainer.tensor_parallel=2", "trainer=ddp does not"],
    "schedule=wsd schedule.warmup=900 schedule.decay=200": ["schedule.warmup (900", "trainer.max_steps=1000"],
    "schedule.warmup=1.5": ["schedule.warmup=1.5", "whole number"],
    "init_from=hf:/nowhere": ["init_from=hf:/nowhere", "no such folder"],
    "init_from=run:a resume_from=b": ["give one of them"],
    "optimizer._target_=torch.optim.LBFGS": [
        "optimizer.betas is not an argument of torch.optim.LBFGS",
        "~optimizer.betas",
    ],
    "init_from=run:nowhere": ["init_from=run:nowhere holds no record.json", "init_from=outputs/GROUP/RUN"],
    "resume_from=nowhere": ["resume_from=nowhere holds no record.json"],
    "task=classification data=sentence_grammar model.pooling=cls": ["model.pooling=cls", "last or mean"],
}
COMPOSED = CHOICES | GRAMMAR | COMBINATIONS
SET = KEYS | VALUES


def assert_says(sentence: str, parts: list[str]) -> None:
    assert not any(sign in sentence for sign in ("\n", "Traceback", "++")), sentence
    for part in parts:
        assert part in sentence, sentence


@pytest.mark.parametrize("override", [*COMPOSED, "optimizer.lrr=1", "optimizer.lr=abc", "+typo=1", "~seed"])
def test_refusal_is_one_sentence_that_names_what_matters(override: str) -> None:
    provided = override.split(" ") if override in COMBINATIONS else [override]
    with pytest.raises(ConfigurationError) as refusal:
        compose_checked("train", provided)
    assert_says(str(refusal.value), (COMPOSED | SET)[override])


@pytest.mark.parametrize("override", SET)
def test_unknown_field_or_wrong_value_is_refused_by_name(override: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        key_checks.check(with_override(override))
    assert_says(str(refusal.value), SET[override])


@cache
def usual() -> dict[str, Any]:
    return compose("train")


def with_override(override: str) -> dict[str, Any]:
    """The usual configuration with one field set or taken out, as Hydra would, without composing again."""
    config = copy.deepcopy(usual())
    parsed = OverridesParser.create().parse_override(override)
    *path, last = parsed.key_or_group.split(".")
    node: Any = config
    for key in path:
        node = node[key]
    if parsed.is_delete():
        del node[last]
    else:
        node[last] = parsed.value()
    return config


@pytest.mark.parametrize(
    "override",
    [
        "optimizer.lr=1e-3",
        "optimizer.lr=1",
        "trainer.max_steps=1e3",
        "model.mixer.scale=1.0",
        "+model.mixer.qk_norm=true",
        "++seed=4",
        "tags=[a,b]",
        "name=7",
        "notes='a, b = c'",
        "trainer.gradient_clip=null",
        "model.vocab_size=50257",
    ],
)
def test_sensible_overrides_pass(override: str) -> None:
    compose_checked("train", [override])


@pytest.mark.parametrize("task", ["causal_lm", "multi_token_prediction"])
def test_labelled_texts_are_read_as_texts_on_request_alone(task: str) -> None:
    """Else a set of labelled texts would train a language model where its classifier was meant."""
    words = [f"task={task}", "data=sentence_grammar", "model=decoder_only"]
    with pytest.raises(
        ValueError, match=r"is labelled_text: .*read the texts without their labels, task.without_labels="
    ):
        h2h.compose("train", words)
    assert h2h.compose("train", [*words, "task.without_labels=true"])["data"]["tokenizer"] == "bpe"
    with pytest.raises(ValueError, match="augmentation=swapping cannot be used"):
        h2h.compose("train", [*words, "task.without_labels=true", "augmentation=swapping"])


def test_a_set_without_a_task_is_classified_and_not_read_as_text() -> None:
    composed = h2h.compose("train", ["data=sst2"])["choices"]
    assert (composed["task"], composed["model"]) == ("classification", "encoder_only")


def test_batches_in_tokens_count_the_rows_that_are_read() -> None:
    words = ["task=causal_lm", "task.without_labels=true", "model=decoder_only", "data=csv", "data.path=reviews.csv"]
    composed = h2h.compose("train", [*words, "data.max_length=16", "trainer.batch_tokens=8192"])
    assert composed["data"]["batch_size"] == 512
    with pytest.raises(ValueError, match="needs rows of one length"):
        h2h.compose("train", [*words, "trainer.batch_tokens=8192"])
