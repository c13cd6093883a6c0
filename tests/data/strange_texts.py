"""Texts of all that Unicode has, drawn by a seed, for laws that hold for every text."""

from __future__ import annotations

import random

_ALPHABETS = (
    "abcdefgh ijkl  mnopqrstuvwxyz",
    "ABCDEFXYZ 0123456789",
    " \t\n\r\v\f\u00a0\u2003\u3000\u200b",
    "éèüñçøåßİıŁ",
    "e\u0301a\u0308n\u0303",
    "日本語漢字かなカナ한국어",
    "αβγДЖЯעבריתالعربيةहिन्दी",
    "🙂👩\u200d👩\u200d👧🇩🇪🏳\ufe0f\u200d🌈𝒳𐍈",
    ".,;:!?'\"()[]{}<>|/\\@#$%^&*-_=+~`",
    "▁Ġ##ĊĀ",
    "\x00\x01\x07\x1b\x7f\x85\ufeff\ufffd\ue000",
)
_WORDS = ("<pad>", "<bos>", "<eos>", "<mask>", "<unk>", "[CLS]", "##s", "don't", " the", "\r\n", "...", "")


def strange_texts(number: int, seed: int = 0) -> list[str]:
    """Draw texts, always with the empty one, one of blanks, and one of every alphabet."""
    chance = random.Random(seed)
    texts = ["", "   ", "\n\n", *_ALPHABETS, " ".join(_WORDS)]
    while len(texts) < number:
        parts = []
        for _ in range(chance.randrange(1, 9)):
            letters = chance.choice(_ALPHABETS)
            parts.append("".join(chance.choice(letters) for _ in range(chance.randrange(0, 9))))
            parts.append(chance.choice(_WORDS) if chance.random() < 0.2 else "")
        texts.append("".join(parts))
    return texts
