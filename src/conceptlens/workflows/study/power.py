"""How many images a study needs: a power calculation.

Two questions, the larger answer counts: images so that a given difference in mean Likert score between true and
shuffled maps is found, and images so that the accuracy of the choices is known to a given width.
"""

import math

from scipy.stats import norm

from conceptlens.core.documents import Part
from conceptlens.core.errors import UserError


class Plan(Part):
    """What the study should be able to show."""

    effect: float = 1.0  # points of the Likert scale between true and shuffled maps
    deviation: float = 1.2  # of one rating
    image_share: float = 0.5  # of that variance lies between images: raters of one image agree so far
    power: float = 0.9
    alpha: float = 0.05  # two-sided
    accuracy: float = 0.85  # of choices, expected
    width: float = 0.1  # of the interval around it, to either side
    raters: int = 2


class Power(Part):
    """How many images, and what for."""

    plan: Plan
    catch_share: float  # of all images whose map is shuffled
    for_likert: int  # images with a true map
    for_choice: int
    images: int  # the larger of both
    catch: int  # images with a shuffled map besides
    text: str


def images_needed(plan: Plan, catch_share: float = 0.2) -> Power:
    """Images with true maps, and shuffled ones in the given share of all.

    The variance of an image's mean rating over m raters is σ²(ρ + (1 − ρ)/m), ρ being the share that lies between
    images. Comparing n means with r·n others at a difference δ takes n = (z₁₋α/₂ + z_power)²·(1 + 1/r)·variance/δ².
    """
    for name, value in (("power", plan.power), ("alpha", plan.alpha), ("accuracy", plan.accuracy)):
        if not 0 < value < 1:
            raise UserError(f"{name}: expected a number between 0 and 1, found {value}.")
    if plan.effect <= 0 or plan.deviation <= 0 or plan.width <= 0 or plan.raters < 1:
        raise UserError("A power calculation needs an effect, a deviation and a width above 0, and at least one rater.")
    if not 0 < catch_share < 1 or not 0 <= plan.image_share <= 1:
        raise UserError("The share of shuffled maps lies between 0 and 1, and so does that of variance between images.")
    ratio = catch_share / (1 - catch_share)
    spread = plan.deviation**2 * (plan.image_share + (1 - plan.image_share) / plan.raters)
    z = float(norm.ppf(1 - plan.alpha / 2) + norm.ppf(plan.power))
    likert = math.ceil(round(z**2 * (1 + 1 / ratio) * spread / plan.effect**2, 9))
    # Choices of one image by several raters are not independent either: the design effect of equal clusters.
    design = plan.image_share + (1 - plan.image_share) / plan.raters
    quantile = float(norm.ppf(1 - plan.alpha / 2))
    choice = math.ceil(round(quantile**2 * plan.accuracy * (1 - plan.accuracy) * design / plan.width**2, 9))
    images = max(likert, choice)
    catch = max(1, round(images * ratio))
    text = (
        f"{likert} images with true maps and {max(1, round(likert * ratio))} with shuffled ones find a difference of "
        f"{plan.effect:g} point{'' if plan.effect == 1 else 's'} with power {plan.power:.0%} ({plan.raters} raters, "
        f"deviation {plan.deviation:g}); "
        f"{choice} images give the accuracy of choices to ±{plan.width:.0%}."
    )
    return Power(
        plan=plan, catch_share=catch_share, for_likert=likert, for_choice=choice, images=images, catch=catch, text=text
    )


def power_of(plan: Plan, images: int, catch: int) -> float:
    """The chance to find the plan's difference with so many images of each kind, in the normal approximation."""
    spread = plan.deviation**2 * (plan.image_share + (1 - plan.image_share) / plan.raters)
    error = math.sqrt(spread * (1 / images + 1 / catch))
    return float(norm.cdf(plan.effect / error - norm.ppf(1 - plan.alpha / 2)))
