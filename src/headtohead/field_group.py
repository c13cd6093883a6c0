"""Fields that belong together travel through constructors as one record, and stand in YAML among the others."""

from __future__ import annotations


class FieldGroup:
    """The base of a frozen dataclass whose fields stand on the level of the parameter that takes it.

    A parameter `rows: TokenizedRows` of a constructor adds the fields of the record to those of the class:
    `data.batch_size`, not `data.rows.batch_size`. Defaults are those of the record, unless the parameter's own default
    (`rows: TokenizedRows = TokenizedRows(tokenizer="char")`) says otherwise.
    """
