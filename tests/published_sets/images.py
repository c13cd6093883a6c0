"""Sets of images: Parquet files whose pictures are structs of bytes and path, and whose metadata names the classes.

Columns, names of classes and folders are those of the cards at the revisions that the YAML files pin
(https://huggingface.co/datasets/ylecun/mnist, zalando-datasets/fashion_mnist, uoft-cs/cifar10, uoft-cs/cifar100,
ethz/food101, ILSVRC/imagenet-1k).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from published_sets.writing import write_card, write_parquet

FASHION = (
    "T - shirt / top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR100_FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch cra crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_COARSE = """
aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture
insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2
"""
FOOD101 = """
apple_pie baby_back_ribs baklava beef_carpaccio beef_tartare beet_salad beignets bibimbap bread_pudding
breakfast_burrito bruschetta caesar_salad cannoli caprese_salad carrot_cake ceviche cheesecake cheese_plate
chicken_curry chicken_quesadilla chicken_wings chocolate_cake chocolate_mousse churros clam_chowder club_sandwich
crab_cakes creme_brulee croque_madame cup_cakes deviled_eggs donuts dumplings edamame eggs_benedict escargots
falafel filet_mignon fish_and_chips foie_gras french_fries french_onion_soup french_toast fried_calamari fried_rice
frozen_yogurt garlic_bread gnocchi greek_salad grilled_cheese_sandwich grilled_salmon guacamole gyoza hamburger
hot_and_sour_soup hot_dog huevos_rancheros hummus ice_cream lasagna lobster_bisque lobster_roll_sandwich
macaroni_and_cheese macarons miso_soup mussels nachos omelette onion_rings oysters pad_thai paella pancakes
panna_cotta peking_duck pho pizza pork_chop poutine prime_rib pulled_pork_sandwich ramen ravioli red_velvet_cake
risotto samosa sashimi scallops seaweed_salad shrimp_and_grits spaghetti_bolognese spaghetti_carbonara spring_rolls
steak strawberry_shortcake sushi tacos takoyaki tiramisu tuna_tartare waffles
"""
IMAGENET = ("tench, Tinca tinca", "goldfish, Carassius auratus", *(f"kind {number}" for number in range(2, 1000)))
"""The classes of ImageNet, as many as there are; but for the first two, not their real names."""
Form = Literal["PNG", "JPEG"]


def picture(shape: Sequence[int], label: int, position: int, form: Form) -> tuple[bytes, np.ndarray]:
    """The file of an image whose brightness follows from its class, so that it can be learned, and its levels."""
    from PIL import Image

    generator = np.random.default_rng([label, position])
    base = 20 + 200 * ((label * 7) % 10) / 9
    levels = np.clip(generator.normal(base, 12, shape), 0, 255).astype(np.uint8)
    levels[: shape[0] // 4, : shape[1] // 2] = (25 * label + position) % 256
    file = BytesIO()
    Image.fromarray(levels).save(file, form, **({"quality": 90} if form == "JPEG" else {}))
    return file.getvalue(), levels


def write_pictures(
    folder: Path,
    *,
    image: str,
    labels: Mapping[str, Sequence[str]],
    shape: Sequence[int],
    rows: Mapping[str, int],
    subset: str | None,
    inside: str,
    licence: str,
    form: Form = "PNG",
    shards: int = 1,
) -> None:
    """`labels` are the columns of labels with the names of their classes; `rows` those of each split."""
    from datasets import ClassLabel, Features, Image

    features = Features({image: Image(), **{column: ClassLabel(names=list(names)) for column, names in labels.items()}})
    for split, number in rows.items():
        written: list[dict[str, Any]] = []
        for position in range(number):
            own = {column: position % len(names) for column, names in labels.items()}
            content, _ = picture(shape, next(iter(own.values())), position + 10_000 * len(split), form)
            written.append({image: {"bytes": content, "path": f"{position}.{form.lower()}"}, **own})
        for shard in range(shards):
            path = folder / inside / f"{split}-{shard:05d}-of-{shards:05d}.parquet"
            write_parquet(path, written[shard::shards], features)
    message: list[dict[str, Any]] = [{"name": image, "dtype": "image"}]
    for column, names in labels.items():
        numbered = {str(number): name for number, name in enumerate(names)}
        message.append({"name": column, "dtype": {"class_label": {"names": numbered}}})
    named = {"config_name": subset} if subset else {}
    files = [{"split": split, "path": f"{inside}/{split}-*"} for split in rows]
    write_card(
        folder,
        {
            "license": licence,
            "task_categories": ["image-classification"],
            "dataset_info": {
                **named,
                "features": message,
                "splits": [{"name": split, "num_bytes": 1, "num_examples": number} for split, number in rows.items()],
            },
            "configs": [{"config_name": subset or "default", "data_files": files}],
        },
    )


def write_imagenet(folder: Path) -> None:
    """Row groups of a few pictures; the labels of the test split are -1, which means that they are kept back."""
    from pyarrow import parquet

    sizes = {"train": 2 * 60, "validation": 20, "test": 10}
    write_pictures(
        folder,
        image="image",
        labels={"label": IMAGENET},
        shape=(40, 30, 3),
        rows=sizes,
        subset=None,
        inside="data",
        licence="other",
        form="JPEG",
        shards=2,
    )
    for path in sorted((folder / "data").glob("*.parquet")):
        table = parquet.read_table(path)
        if path.name.startswith("test"):
            hidden = pa.array([-1] * len(table), table.schema.field("label").type)
            table = table.set_column(1, table.schema.field("label"), hidden)
        parquet.write_table(table, path, row_group_size=10)


SETS: dict[str, Callable[[Path], None]] = {
    "mnist": partial(
        write_pictures,
        image="image",
        labels={"label": tuple("0123456789")},
        shape=(28, 28),
        rows={"train": 100, "test": 30},
        subset="mnist",
        inside="mnist",
        licence="mit",
    ),
    "fashion_mnist": partial(
        write_pictures,
        image="image",
        labels={"label": FASHION},
        shape=(28, 28),
        rows={"train": 100, "test": 30},
        subset="fashion_mnist",
        inside="fashion_mnist",
        licence="mit",
    ),
    "cifar10": partial(
        write_pictures,
        image="img",
        labels={"label": CIFAR10},
        shape=(32, 32, 3),
        rows={"train": 100, "test": 30},
        subset="plain_text",
        inside="plain_text",
        licence="unknown",
    ),
    "cifar100": partial(
        write_pictures,
        image="img",
        labels={"fine_label": CIFAR100_FINE.split(), "coarse_label": CIFAR100_COARSE.split()},
        shape=(32, 32, 3),
        rows={"train": 600, "test": 100},
        subset="cifar100",
        inside="cifar100",
        licence="unknown",
    ),
    "food101": partial(
        write_pictures,
        image="image",
        labels={"label": FOOD101.split()},
        shape=(51, 68, 3),
        rows={"train": 606, "validation": 202},
        subset=None,
        inside="data",
        licence="unknown",
        form="JPEG",
        shards=2,
    ),
    "imagenet": write_imagenet,
}
SETS["cifar10_pixels"] = SETS["cifar10"]
