"""Makes a site that needs nothing from elsewhere: links out of this folder lead to copies within it.

MkDocs calls the functions: https://www.mkdocs.org/dev-guide/plugins/#events
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
_OUT = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")
_FETCHED = "https://unpkg.com/iframe-worker/shim"
# Pages of the repository's top that are pages of the site, too.
_PAGES = {"README.md": "index.md"}


def on_files(files: Files, config: Any) -> Files:
    """Copy what pages link to, source files as text, so that a browser shows them."""
    found = {
        match[1] for page in Path(config.docs_dir).glob("*.md") for match in _OUT.finditer(page.read_text())
    }
    for name in sorted(found - set(_PAGES)):
        if (ROOT / name).is_file():
            text = (ROOT / name).read_text(encoding="utf-8")
            files.append(File.generated(config, _copy(name), content=text))
    return files


def on_post_page(output: str, **_: Any) -> str:
    """Take from the site what the theme would fetch from a server to search in files."""
    return output.replace(_FETCHED, "javascripts/iframe-worker.js")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead to the copies."""
    return _OUT.sub(_inside, markdown)


def _inside(link: re.Match[str]) -> str:
    name, anchor = link[1], link[2] or ""
    if name in _PAGES:
        return f"]({_PAGES[name]})"
    return f"]({_copy(name)}{anchor})" if (ROOT / name).is_file() else f"]({_copy(name)})"


def _copy(name: str) -> str:
    return posixpath.join("files", f"{name}.txt")
