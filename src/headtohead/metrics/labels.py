"""Metrics of predicted labels (of classes, of entities), of scores, and of rankings of documents."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ACCURACY = Metric(name="accuracy", direction="max", best=1.0, over="rows", any_tokenizer=True, headline=1)
"""The share of rows whose label is right."""
PRECISION_MACRO = Metric(name="precision_macro", direction="max", best=1.0, over="classes", any_tokenizer=True)
"""The share of right answers among those that name a class, as a mean over the classes."""
RECALL_MACRO = Metric(name="recall_macro", direction="max", best=1.0, over="classes", any_tokenizer=True)
"""The share of a class that is found, as a mean over the classes."""
F1_MACRO = Metric(name="f1_macro", direction="max", best=1.0, over="classes", any_tokenizer=True)
"""The harmonic mean of precision and recall of a class, as a mean over the classes."""
F1_SECOND_CLASS = Metric(name="f1_second_class", direction="max", best=1.0, over="rows", any_tokenizer=True)
"""The F1 of finding the second of two classes, as published for MRPC and QQP."""
MATTHEWS = Metric(name="matthews", direction="max", best=1.0, over="rows", low=-1.0, chance=0.0, any_tokenizer=True)
"""The correlation of predicted with true classes (Matthews 1975), as published for CoLA."""
ENTITY_PRECISION = Metric(name="entity_precision", direction="max", best=1.0, over="entities")
"""The share of predicted entities that are there, with their bounds and type."""
ENTITY_RECALL = Metric(name="entity_recall", direction="max", best=1.0, over="entities")
"""The share of entities that are found, with their bounds and type."""
ENTITY_F1 = Metric(name="entity_f1", direction="max", best=1.0, over="entities", headline=6)
"""The harmonic mean of the precision and the recall of entities."""
PEARSON = Metric(name="pearson", direction="max", best=1.0, over="rows", low=-1.0, chance=0.0, any_tokenizer=True)
"""The correlation of predicted with true scores."""
SPEARMAN = Metric(
    name="spearman", direction="max", best=1.0, over="rows", low=-1.0, chance=0.0, any_tokenizer=True, headline=7
)
"""The correlation of the ranks of predicted and true scores."""


RETRIEVAL_ACCURACY = Metric(
    name="retrieval_accuracy", direction="max", best=1.0, over="queries", any_tokenizer=True, headline=8
)
"""The share of texts whose own second text is the most similar of a fixed number of candidates."""
RETRIEVAL_MRR = Metric(
    name="retrieval_mrr", title="retrieval MRR", direction="max", best=1.0, over="queries", any_tokenizer=True
)
"""One over the rank of a text's own second text among the same candidates."""
RECALL = Metric(name="recall", direction="max", best=1.0, over="queries", any_tokenizer=True)
"""The share of relevant documents among the first k of a ranking, written recall@k."""
MRR = Metric(name="mrr", title="MRR", direction="max", best=1.0, over="queries", any_tokenizer=True)
"""One over the rank of the first relevant document among k, written mrr@k."""
NDCG = Metric(name="ndcg", title="nDCG", direction="max", best=1.0, over="queries", any_tokenizer=True)
"""The discounted gain of a ranking over that of the best one, written ndcg@k (Järvelin and Kekäläinen 2002)."""
