"""Receivers of alerts for tests: a real HTTP server and a real SMTP server on loopback, and a certificate for both."""

from __future__ import annotations

import datetime
import http.server
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK = ("127.0.0.0/8",)


@dataclass
class Posted:
    """A request that came in."""

    path: str
    headers: dict[str, str]  # their names in small letters
    body: bytes


@dataclass
class Receiver:
    """An HTTP server. It answers with the statuses given, in turn, and the last one from then on."""

    port: int = 0
    scheme: str = "http"
    statuses: list[int] = field(default_factory=lambda: [200])
    headers: dict[str, str] = field(default_factory=dict)
    says: bytes = b"thanks"
    posted: list[Posted] = field(default_factory=list)

    def url(self, path: str = "/hook") -> str:
        """Where it is."""
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"


@contextmanager
def a_receiver(port: int = 0, tls: ssl.SSLContext | None = None, **how: Any) -> Iterator[Receiver]:
    """A real server in a thread. `port`: 0 takes any that is free."""
    found = Receiver(**how)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): text for name, text in self.headers.items()}
            status = found.statuses.pop(0) if len(found.statuses) > 1 else found.statuses[0]
            found.posted.append(Posted(self.path, headers, body))
            self.send_response(status)
            for name, text in found.headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(found.says)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass  # a client that goes away is no news

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket, found.scheme = tls.wrap_socket(server.socket, server_side=True), "https"
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class MailServer:
    """An SMTP server, and the mails that it has taken."""

    port: int = 0
    mails: list[bytes] = field(default_factory=list)
    to: list[list[str]] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    refuses: str = ""  # what it says to every receiver; empty: it takes all

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:
        """A receiver is named."""
        if self.refuses:
            return self.refuses
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        """A mail is handed over."""
        self.mails.append(envelope.content)
        self.to.append(list(envelope.rcpt_tos))
        return "250 taken"


@contextmanager
def a_mail_server(
    tls: ssl.SSLContext | None = None, *, wrapped: bool = False, password: str = ""
) -> Iterator[MailServer]:
    """A real server in a thread. `tls`: it offers STARTTLS; `wrapped`: it speaks TLS from the beginning."""
    found = MailServer()

    def log_in(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        found.logins.append((data.login.decode(), data.password.decode()))
        is_right = data.password.decode() == password
        return AuthResult(success=is_right, handled=False, message=None if is_right else "535 5.7.8 wrong")

    how: dict[str, Any] = {"auth_required": bool(password), "authenticator": log_in if password else None}
    if tls is not None and not wrapped:
        how["tls_context"] = tls
    if wrapped:
        how["auth_require_tls"] = False  # it does not see the one around it
    controller = Controller(found, "127.0.0.1", 0, ssl_context=tls if wrapped else None, **how)
    controller.port = _free_port()
    controller.start()
    found.port = controller.port
    try:
        yield found
    finally:
        controller.stop()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def a_certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For a server at 127.0.0.1, and for a client that trusts it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("hook.test")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, key_pem = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, key_pem)
    return server, ssl.create_default_context(cafile=str(pem))


def resolves_to(*addresses: str) -> Callable[[str, int], list[str]]:
    """A resolver for which every name has these addresses."""
    return lambda host, port: list(addresses)
