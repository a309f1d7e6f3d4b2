"""`make demo`: an IVQ-CBM on the built-in blood cells, from nothing to a page."""

from pathlib import Path

from conceptlens.core.files import dump_yaml
from conceptlens.evaluation.summary import run_text
from conceptlens.model import resume, train
from conceptlens.recipes.parse import load_recipe, recipe_tree
from conceptlens.runs.folder import RunFolder

RECIPE = "blood-cells/ivq-cbm"


def demo(out: str = "runs/demo", *, again: bool = False, quiet: bool = False) -> str:
    """Train, measure and report; a demo that is there is shown, one that was stopped goes on."""
    folder = Path(out)
    if not again and (folder / "run.json").exists():
        run = RunFolder.open(folder)
        wanted = dump_yaml(recipe_tree(load_recipe(RECIPE, {"out": out})))
        same = (folder / "recipe.yaml").exists() and (folder / "recipe.yaml").read_text("utf-8") == wanted
        if same:
            note = (
                "this demo was trained before; --again trains it anew"
                if run.info["status"] == "done"
                else "going on with the demo that was stopped"
            )
            return f"{run_text(resume(folder, quiet=quiet))}\n({note})"
    if not quiet:
        print("training an IVQ-CBM on the built-in blood cells: about four minutes on two cores", flush=True)
    return run_text(train(RECIPE, {"out": out}, overwrite=(folder / "run.json").exists(), quiet=quiet))
