"""The commands: a name, and the function that it calls; grouped by task."""

from functools import cache
from importlib import import_module
from typing import Any

from conceptlens.core.files import parse_yaml
from conceptlens.core.package_files import package_text

GROUPS: dict[str, dict[str, str]] = {
    "data": {
        "init": "conceptlens.api:init",
        "data check": "conceptlens.api:check_data",
        "data prepare": "conceptlens.api:prepare_data",
        "data detect": "conceptlens.api:detect_concepts",
        "data segment": "conceptlens.api:segment_images",
        "label": "conceptlens.api:label",
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
        "trust": "conceptlens.api:trust",
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
        "reproduce": "conceptlens.api:reproduce",
        "study make": "conceptlens.api:make_study",
        "study analyze": "conceptlens.api:analyze_study",
    },
    "share": {
        "report": "conceptlens.api:make_report",
        "share": "conceptlens.api:share",
        "export": "conceptlens.api:export",
        "push": "conceptlens.api:push",
        "pull": "conceptlens.api:pull",
        "serve-model": "conceptlens.api:serve_model",
    },
    "keep": {"rehash": "conceptlens.api:rehash", "migrate": "conceptlens.api:migrate"},
    "GIG": {"decompose": "conceptlens.gig:decompose", "name-concepts": "conceptlens.gig:name_concepts"},
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


@cache
def renamed_names() -> dict[str, Any]:
    """What version 0.1 called commands and options: `renamed.yaml`."""
    tables: dict[str, Any] = parse_yaml(package_text("conceptlens.cli", "renamed.yaml"), where="renamed.yaml")
    return tables


def renamed_options(name: str) -> dict[str, str]:
    """What options of a command were called in version 0.1, and what they are called now."""
    options = renamed_names()["options"]
    renamed: dict[str, str] = options.get(name.split()[0], {}) | options.get(name, {})
    return renamed


def load_function(name: str) -> Any:
    """The function of a command."""
    module, _, attribute = COMMANDS[name].partition(":")
    return getattr(import_module(module), attribute)
