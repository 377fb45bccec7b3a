"""What can be chosen about training, and the options that name it."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from demos.ecg import data
from demos.ecg.folded import SHAPES

MILDER = data.Variety(swap=0.4, mix=0.5, smear=0.3, wide=0.1)


@dataclass(frozen=True)
class Recipe:
    """What can be chosen about training; the defaults are the shipped recipe.

    steps      of the dense phase, of the second phase (fine-tuning; prunes if the net is sparse),
               and of each run of the third
    soup       runs of the third phase: from the second phase's net, each with its own chunks,
               zeros kept; their weights are averaged. 0: no third phase
    weights    of N, S, V in the class loss
    smoothing  of the class labels
    focus      exponent of a focal class loss; 0 is cross entropy
    distil     part of the second phase's loss that compares with the teachers, if there are any
    bias       added to the S and V logits of the finished net
    variety    of the training chunks
    milder     of the teachers with odd numbers: they differ more from each other that way
    """

    steps: tuple[int, int, int] = (1200, 1000, 0)
    soup: int = 0
    weights: tuple[float, float, float] = (1.0, 3.0, 1.5)
    smoothing: float = 0.02
    focus: float = 0.0
    distil: float = 0.7
    bias: tuple[float, float] = (0.0, 0.5)
    variety: data.Variety = field(default_factory=data.Variety)
    milder: data.Variety = MILDER

    def of_teacher(self, number: int) -> tuple[Recipe, int]:
        """Recipe and seed of the first phase of a teacher: both varieties in turn."""
        variety = self.milder if number % 2 else self.variety
        return dataclasses.replace(self, variety=variety), number // 2


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """Options that train.py and cross_validate.py share."""
    recipe, variety = Recipe(), data.Variety()
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data/mitdb"), help="folder of MIT-BIH records"
    )
    parser.add_argument("--net", choices=SHAPES, default="ecg_c48_4x1_75")
    parser.add_argument("--steps", type=int, nargs=3, default=recipe.steps)
    parser.add_argument("--soup", type=int, default=recipe.soup)
    parser.add_argument("--weights", type=float, nargs=3, default=recipe.weights)
    parser.add_argument("--bias", type=float, nargs=2, default=recipe.bias, help="of S and V")
    for name in ("smoothing", "focus", "distil"):
        parser.add_argument(f"--{name}", type=float, default=getattr(recipe, name))
    for name in ("swap", "mix", "smear", "gain", "wide"):
        parser.add_argument(f"--{name}", type=float, default=getattr(variety, name))
    parser.add_argument("--uniform", action="store_true", default=variety.uniform)
    parser.add_argument("--teachers", type=int, default=4, help="dense C24 nets that teach")


def recipe_of(args: argparse.Namespace) -> Recipe:
    """The recipe that the options name."""
    names = [f.name for f in dataclasses.fields(data.Variety)]
    variety = data.Variety(**{name: getattr(args, name) for name in names})
    return Recipe(
        tuple(args.steps),
        args.soup,
        tuple(args.weights),
        args.smoothing,
        args.focus,
        args.distil,
        tuple(args.bias),
        variety,
    )
