"""The web page: `conceptlens serve`. A typed JSON API over run folders (docs/api.md) and the static page that reads it.

Needs the extra `page` (FastAPI and uvicorn); nothing else of the package imports from here.
"""
