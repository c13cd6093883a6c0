"""Pictures as files hold them, made into bytes of one size and read by as many threads as there are processors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from headtohead.data.cache.parallel_map import num_processes
from headtohead.data.data_source import DataError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Length

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Colours = Literal["rgb", "grey"]
_MODES = {"rgb": "RGB", "grey": "L"}
_AT_ONCE = 64
"""Pictures that a thread gets together."""
_WAITING = 4
"""Pieces per thread that are under way, so that memory stays small."""

Content = Path | bytes


@dataclass(frozen=True)
class PictureSize(FieldGroup):
    """The square that pictures are scaled and cut to, and its channels."""

    image_size: Length = 32
    colours: Colours = "rgb"

    def check(self) -> None:
        """Raise DataError where there is no such square."""
        if self.image_size < 1:
            raise DataError(f"data.image_size={self.image_size} must be at least 1.")
        if self.colours not in get_args(Colours):
            raise DataError(f"data.colours={self.colours} is unknown: choose one of {', '.join(get_args(Colours))}.")


def shape_of(image_size: int, colours: Colours) -> tuple[int, int, int]:
    """Return channels, height and width."""
    return (3 if colours == "rgb" else 1, image_size, image_size)


def pixels_of(content: Content, image_size: int, colours: Colours, where: str) -> np.ndarray:
    """Return a picture as a row of bytes, channels first, scaled and cropped in the middle to a square; `where` locates
    it in messages."""
    from PIL import Image, UnidentifiedImageError

    size = (image_size, image_size)
    try:
        with Image.open(content if isinstance(content, Path) else BytesIO(content)) as image:
            square = fitted_image(image, size, colours)
    except DataError as refusal:
        raise DataError(f"{where} {refusal}") from None
    except Image.DecompressionBombError as error:
        raise DataError(f"{where} has more pixels than a picture of a data set ({error}): remove it.") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{where} is not a whole image ({error}): replace it, or remove it.") from error
    return np.asarray(square, dtype=np.uint8).reshape(*size, -1).transpose(2, 0, 1).reshape(-1)


def fitted_image(image: Picture, size: tuple[int, int], colours: Colours, *, exact_blocks: bool = False) -> Picture:
    """Return an open picture in 8 bits a channel, scaled and cropped in the middle to a width and a height;
    `exact_blocks` scales by means of whole blocks, so that a picture that was enlarged comes back as it was. Raise
    DataError, without the name of the picture, for pixels that cannot be brought to 8 bits."""
    from PIL import Image, ImageOps

    method = Image.Resampling.BOX if exact_blocks else Image.Resampling.BICUBIC
    return ImageOps.fit(_in_eight_bits(image).convert(_MODES[colours]), size, method)


def _in_eight_bits(image: Picture) -> Picture:
    """Return a grey picture of 16 bits by its first 8: Pillow would clip it at 255, and leave little but white."""
    from PIL import Image

    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):  # by the version of Pillow
        return Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise DataError("has pixels of 32 bits, of which no range is known: save it with 8 or 16")
    return image


def all_pixels(
    contents: Iterable[tuple[bytes, str]], image_size: int, colours: Colours, *, together: int = _AT_ONCE
) -> Iterator[np.ndarray]:
    """Decode many pictures, each with its location in words, in their order, so many rows `together`. Pillow releases
    other threads while it reads a picture."""
    threads = num_processes()
    under_way: deque[Future[np.ndarray]] = deque()

    def decode(piece: Sequence[tuple[bytes, str]]) -> np.ndarray:
        return np.stack([pixels_of(content, image_size, colours, where) for content, where in piece])

    with ThreadPoolExecutor(threads) as pool:
        try:
            for piece in _pieces(contents, together):
                under_way.append(pool.submit(decode, piece))
                if len(under_way) > _WAITING * threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _pieces(contents: Iterable[tuple[bytes, str]], size: int) -> Iterator[list[tuple[bytes, str]]]:
    piece: list[tuple[bytes, str]] = []
    for content in contents:
        piece.append(content)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece
