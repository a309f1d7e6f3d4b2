"""The glossary as the server gives it."""

from typing import Any

from conceptlens.pages.glossary import glossary


def test_the_server_gives_every_term(client: Any) -> None:
    answer = client.get("/api/v1/glossary")
    assert answer.status_code == 200
    terms = answer.json()["terms"]
    assert list(terms) == list(glossary())
    assert terms["leakage"] == {
        "meaning": glossary()["leakage"].meaning,
        "reference": "Mahinpei et al., arXiv 2106.13314",
    }
    assert client.get("/api/v1/glossary", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
