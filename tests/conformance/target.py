"""The server that a case is put to, and what has to lie in its buckets: a package, a model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import httpx

from stoker.client.client import Client
from stoker.client.packaging import pack_trainer

from .expect import MISSING, Answer

BUCKET = "gs://stoker-conformance"
_SECONDS = 60.0
_TRAINER = 'import sys\n\nprint("arguments", sys.argv[1:])\n'


class NotPossible(Exception):
    """A case needs what this machine does not have."""


class Target:
    """One server."""

    def __init__(self, url: str, token: str = "", *, tell: Callable[[str], None] = lambda _: None) -> None:
        """`tell`: is given every request and its answer."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=_SECONDS, trust_env=False)
        self._client = Client(url, token)
        self._tell = tell

    def ask(self, method: str, url: httpx.URL, headers: httpx.Headers, content: bytes | None) -> Answer:
        """Send one request."""
        sent = self._http.request(method, url, headers=headers, content=content)
        try:
            body = sent.json() if sent.content else MISSING
        except ValueError:
            body = MISSING
        self._tell(f"> {method} {url}" + (f"\n> {content.decode(errors='replace')}" if content else ""))
        self._tell(f"< {sent.status_code} {sent.text}")
        return Answer(status=sent.status_code, body=body, text=sent.text)

    @cached_property
    def package(self) -> str:
        """The address of a source distribution with the module trainer.task."""
        uri = f"{BUCKET}/trainer-0.0.0.tar.gz"
        with tempfile.TemporaryDirectory() as folder:
            trainer = Path(folder) / "trainer"
            trainer.mkdir()
            (trainer / "__init__.py").touch()
            (trainer / "task.py").write_text(_TRAINER)
            self._client.upload(pack_trainer(trainer, Path(folder) / "out").path, uri)
        return uri

    @cached_property
    def model_dir(self) -> str:
        """The address of a directory with a scikit-learn model: two numbers in, their sum out. Raises NotPossible."""
        try:
            import joblib
            from sklearn.linear_model import LinearRegression
        except ImportError as error:
            raise NotPossible(f"the model of this case is made with scikit-learn: {error}") from None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.joblib"
            joblib.dump(LinearRegression().fit([[0, 0], [0, 1], [1, 0], [2, 3]], [0, 1, 1, 5]), path)
            self._client.upload(path, f"{BUCKET}/adder/model.joblib")
        return f"{BUCKET}/adder/"

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()
        self._client.close()
