"""A recurrent decoder that looks, word by word, for what it needs in what a recurrent encoder read both ways (Bahdanau
et al. 2015, https://arxiv.org/abs/1409.0473)."""

from __future__ import annotations

from headtohead.architectures.encoder_decoder import EncoderDecoder


class RecurrentEncoderDecoder(EncoderDecoder):
    """The same two stacks, with other bricks: recurrent cells that carry the order of tokens by themselves, no stream
    and no feed-forward between them.

    Every layer of the decoder reads the memory right after its cell (Luong et al. 2015,
    https://arxiv.org/abs/1508.04025), so that no loop over words is needed in training. The decoder starts from zero:
    all that it knows of the source, it reads there.
    """

    family = "recurrent_encoder_decoder"
