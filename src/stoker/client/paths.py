"""Where things are on a server, and how a client shows who it is. What cannot be meant is refused before anything is sent."""

from __future__ import annotations

from urllib.parse import quote

import httpx

from stoker.core import errors as e
from stoker.core.ids import JOB_NAME, PROJECT_NAME


def check_url(url: str) -> None:
    """Raise BadSpec for what is no server's address."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise e.BadSpec([e.Violation("url", f"{url[:200]!r} is not http://HOST:PORT")])


def authorization(token: str) -> dict[str, str]:
    """The header that shows a token. What cannot stand in a header is not a token, and is not quoted in any message."""
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise e.Unauthenticated("the token holds characters that no token has", fix="copy it again from its file")
    return {"Authorization": f"Bearer {token}"} if token else {}


def project_path(project: str) -> str:
    """The path of a project. Raises BadSpec for what cannot be one's id."""
    if not PROJECT_NAME.fullmatch(project):
        raise e.BadSpec([e.Violation("project", f"{project[:80]!r} cannot be a project's id")])
    return f"projects/{project}"


def job_path(project: str, name: str) -> str:
    """The path of a job. A name that no job can have is not sent: it might be a path of its own."""
    if not JOB_NAME.fullmatch(name):
        raise e.NotFound(f"no job {name[:200]!r}: a job's name has letters, digits and underscores")
    return f"{project_path(project)}/jobs/{name}"


def node_path(name: str) -> str:
    """The path of a node."""
    return f"/stoker/v1/nodes/{quote(name, safe='')}"


def file_path(uri: str) -> str:
    """The path of a file, by its address. Raises BadSpec for one that leads elsewhere."""
    scheme, _, rest = uri.partition("://")
    if ".." in rest.split("/"):  # on its way the path would be tidied up, and lead to another bucket
        raise e.BadSpec([e.Violation("uri", f"{uri[:200]!r} leads out of its bucket")])
    return f"/stoker/v1/files/{quote(scheme, safe='')}/{quote(rest)}"
