"""Encoders that can be used at once: the built-in ones, those of plug-ins, and timm models in the hub's cache here."""

from conceptlens.core.registry import ENCODERS
from conceptlens.encoders import BUILTIN, LITE0, TIMM


def encoders_at_hand() -> list[str]:
    """Their names, the built-in ones first; nothing is downloaded."""
    return [BUILTIN, LITE0, *ENCODERS.names(), *_cached_timm()]


def _cached_timm() -> list[str]:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    from conceptlens.encoders.timm.hub import FILE

    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return []
    return sorted(
        repository.repo_id
        for repository in repositories
        if repository.repo_id.startswith(TIMM)
        and any(file.file_name == FILE for revision in repository.revisions for file in revision.files)
    )
