"""The commands: a name, and the function that it calls; grouped by task."""

from importlib import import_module
from typing import Any

GROUPS: dict[str, dict[str, str]] = {
    "data": {
        "data check": "conceptlens.api:check_data",
        "concepts draft": "conceptlens.api:draft_concepts",
        "concepts check": "conceptlens.api:check_concepts",
    },
    "train": {
        "demo": "conceptlens.api:demo",
        "train": "conceptlens.api:train",
        "estimate": "conceptlens.api:estimate",
        "recipe": "conceptlens.api:show_recipe",
        "encode": "conceptlens.api:encode",
        "resume": "conceptlens.api:resume",
        "list": "conceptlens.api:list_everything",
    },
    "look": {
        "predict": "conceptlens.api:predict",
        "explain": "conceptlens.api:explain",
        "what-if": "conceptlens.api:what_if",
        "serve": "conceptlens.api:serve",
    },
    "trust": {
        "evaluate": "conceptlens.api:evaluate",
        "interventions": "conceptlens.api:interventions",
        "leakage": "conceptlens.api:leakage",
        "localize": "conceptlens.api:localize",
        "faithfulness": "conceptlens.api:faithfulness",
        "audit": "conceptlens.api:audit",
        "refine": "conceptlens.api:refine",
    },
    "compare": {
        "compare": "conceptlens.api:compare",
        "study make": "conceptlens.api:make_study",
        "study analyze": "conceptlens.api:analyze_study",
    },
    "share": {
        "report": "conceptlens.api:make_report",
        "share": "conceptlens.api:share",
        "export": "conceptlens.api:export",
    },
    "GIG": {"decompose": "conceptlens.gig:decompose"},
    "CORTEX": {
        "codebook demo": "conceptlens.cortex:run_demo",
        "codebook sample": "conceptlens.cortex:sample",
        "codebook extract": "conceptlens.cortex:extract",
        "codebook tokens": "conceptlens.cortex:tokens",
        "codebook search": "conceptlens.cortex:search",
        "codebook edit": "conceptlens.cortex:edit",
        "codebook mask": "conceptlens.cortex:mask",
        "codebook pairs": "conceptlens.cortex:pairs",
        "codebook bias": "conceptlens.cortex:measure_bias",
    },
}
COMMANDS = {name: function for group in GROUPS.values() for name, function in group.items()}

# What version 0.1 called them: the error names what to type now.
RENAMED = {
    "localise": "`conceptlens localize`",
    "intervene": "`conceptlens interventions RUN`, or `conceptlens what-if RUN IMAGE --set …` for one image",
    "study analyse": "`conceptlens study analyze`",
}
# The same for options, by command; those of `codebook` are of all its commands.
RENAMED_OPTIONS: dict[str, dict[str, str]] = {
    "train": {
        "--print_config": "`conceptlens recipe RECIPE`",
        "--print-config": "`conceptlens recipe RECIPE`",
        "--dry-run": "`conceptlens estimate RECIPE`",
    },
    "demo": {"--again": "--overwrite"},
    "serve": {"--no-open": "--no-open-browser"},
    "interventions": {"--set": "`conceptlens what-if RUN IMAGE --set …`", "--class": "--classes"},
    "leakage": {"--twins": "--permutations"},
    "localize": {"--faithfulness": "`conceptlens faithfulness RUN --n N`"},
    "audit": {"--false-alarms": "--false-alarm-rate"},
    "report": {
        "--share": "`conceptlens share RUN FILE.html`",
        "--views": "`conceptlens share RUN FILE.html --views VIEW`",
        "--images": "`conceptlens share RUN FILE.html --n N`",
        "--limit": "`conceptlens share RUN FILE.html --max-mb MB`",
    },
    "concepts": {
        "--text": "--text-encoder",
        "--most-words": "--max-words",
        "--repeats-above": "--duplicate-cosine",
        "--class-above": "--class-cosine",
        "--strict": "--fail-on-findings",
    },
    "decompose": {"--images": "the second word: `conceptlens decompose MODEL IMAGES`", "--validate": "--validate-on"},
    "codebook": {
        "--again": "--overwrite",
        "--per-concept": "--samples-per-concept",
        "--limit": "--samples-per-concept",
        "--batch": "--batch-size",
        "--k": "--tokens-per-concept",
        "--samples": "--noise-samples",
        "--twin": "--unbiased",
        "--rate": "--learning-rate",
        "--of": "--objective",
        "--shrink": "--norm-reduction",
        "--lean": "--start-bias",
        "--record": "--record-every",
    },
    "codebook tokens": {"--n": "--tokens-per-image", "--alpha": "--noise-scale"},
    "codebook mask": {"--n": "--tokens-per-image"},
    "codebook bias": {"--n": "--tokens-per-image"},
    "codebook search": {"--images": "--starts", "--alpha": "--norm-weight"},
    "codebook edit": {"--alpha": "--norm-weight"},
    "codebook pairs": {"--images": "--n", "--alpha": "--norm-weight"},
}


def renamed_options(name: str) -> dict[str, str]:
    """What options of a command were called in version 0.1, and what they are called now."""
    return RENAMED_OPTIONS.get(name.split()[0], {}) | RENAMED_OPTIONS.get(name, {})


def load_function(name: str) -> Any:
    """The function of a command."""
    module, _, attribute = COMMANDS[name].partition(":")
    return getattr(import_module(module), attribute)
