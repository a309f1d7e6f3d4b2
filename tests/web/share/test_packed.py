"""The page as one script for shared files: made of the scripts that are here, and inert as HTML."""

import re

from conceptlens.web.share.page import PACKED, packed_sources


def test_the_packed_page_is_made_of_these_scripts() -> None:
    first = PACKED.read_text("utf-8").splitlines()[0]
    assert first == f"// sources {packed_sources()}", "the page's scripts have changed: run `make pack-web`"


def test_no_html_parser_takes_the_packed_page_for_anything_but_a_script() -> None:
    assert not re.search("</script|<!--", PACKED.read_text("utf-8"), re.IGNORECASE)
