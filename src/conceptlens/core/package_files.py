"""Text files that lie beside the code."""

from importlib import resources


def package_text(package: str, *names: str) -> str:
    """The text of a file in a package, by its folders and its name."""
    return resources.files(package).joinpath(*names).read_text("utf-8")


def package_yaml_names(package: str, folder: str) -> list[str]:
    """The YAML files of a folder, without their ending."""
    entries = resources.files(package).joinpath(folder).iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))
