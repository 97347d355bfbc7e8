"""E-mail, by the site's mail server."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import unquote, urlsplit

from stoker.alerts.channel import Means, Message, NotDelivered, one_line
from stoker.core.errors import BadSpec, Violation

ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_NO_SERVER = "this site sends no e-mail: an admin sets `smtp` and `alerts_from` (docs/alerts.md)"


class Email:
    """Implements Channel: a mail of plain text. The site's settings say by which server."""

    is_signed = False

    def __init__(self, means: Means, context: ssl.SSLContext | None = None) -> None:
        """`context`: whom to trust; None: whom the system trusts."""
        self._means = means
        self._context = context

    def check(self, target: str) -> None:
        """Raise BadSpec for what is no address, and where the site sends no mail."""
        problem = "" if ADDRESS.fullmatch(target) else f"{one_line(target, 80)!r} is no address: name@host is needed"
        if not self._means.smtp or not self._means.sender:
            problem = _NO_SERVER
        if problem:
            raise BadSpec([Violation("target", problem)])

    def shown(self, target: str) -> str:
        """The address."""
        return target

    def send(self, target: str, message: Message, secret: str, now: float) -> str:
        """Hand it to the mail server; returns what that answered. Raises NotDelivered."""
        if not self._means.smtp or not self._means.sender:
            raise NotDelivered(_NO_SERVER)
        delivery = _Delivery(self._means, self._context)
        watch = threading.Timer(self._means.seconds, delivery.break_off)
        watch.daemon = True
        watch.start()
        try:
            return delivery.hand_over(_mail(self._means.sender, target, message, now), target)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            if delivery.is_broken_off:
                raise NotDelivered(f"the mail server did not take it within {self._means.seconds:g} s") from None
            raise NotDelivered(_words(error)) from None
        finally:
            watch.cancel()
            delivery.close()


class _Delivery:
    """One conversation with the mail server."""

    def __init__(self, means: Means, context: ssl.SSLContext | None) -> None:
        self._means = means
        self._context = context or ssl.create_default_context()
        self._server: smtplib.SMTP | None = None
        self.is_broken_off = False

    def hand_over(self, mail: EmailMessage, to: str) -> str:
        """Connect, log in, send."""
        parts = urlsplit(self._means.smtp)
        user, host = unquote(parts.username or ""), str(parts.hostname)
        own = "stoker.invalid" if "." not in (name := socket.gethostname()) else name  # its full name may take seconds
        if parts.scheme == "smtps":
            self._server = smtplib.SMTP_SSL(
                host, parts.port or 465, own, timeout=self._means.seconds, context=self._context
            )
        else:
            self._server = smtplib.SMTP(host, parts.port or 587, own, timeout=self._means.seconds)
            self._server.ehlo()
            if self._server.has_extn("starttls"):
                self._server.starttls(context=self._context)
                self._server.ehlo()
            elif user:
                raise smtplib.SMTPException("it offers no TLS, and the password is not sent without")
        if user:
            self._server.login(user, self._means.smtp_password)
        refused = self._server.send_message(mail, from_addr=self._means.sender, to_addrs=[to])
        if refused:
            raise smtplib.SMTPRecipientsRefused(refused)
        return f"{host} has taken it"

    def break_off(self) -> None:
        """End it, whatever it is waiting for."""
        self.is_broken_off = True
        sock = (
            self._server.sock if self._server is not None else None
        )  # None: it is being connected, which ends by itself
        with suppress(OSError):
            if sock is not None:
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        if self._server is not None:
            with suppress(OSError, smtplib.SMTPException):
                self._server.quit()
            self._server.close()


def _mail(sender: str, to: str, message: Message, now: float) -> EmailMessage:
    """The mail. No text of a job reaches a header but in one line, and the package email refuses any other."""
    alert = message.alert
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = to
    mail["Subject"] = one_line(f"[Stoker]{' Test:' if message.is_test else ''} {alert.title}", 150)
    mail["Date"] = format_datetime(datetime.fromtimestamp(now, UTC))
    mail["Message-ID"] = f"<{message.id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    at = datetime.fromtimestamp(alert.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    owner = f" ({alert.owner})" if alert.owner else ""
    about = f"{alert.event}, {at}{owner}\nRule {message.rule} of stoker alerts; id {message.id}\n"
    text = "\n\n".join([one_line(alert.title), *([alert.text] if alert.text else []), about])
    mail.set_content(text.encode("utf-8", "replace").decode())  # what programs print may be half a character
    return mail


def _words(error: Exception) -> str:
    match error:
        case smtplib.SMTPRecipientsRefused():
            code, said = next(iter(error.recipients.values()))
            return one_line(f"the mail server refuses the receiver: {code} {_text(said)}")
        case smtplib.SMTPAuthenticationError():
            return f"the mail server refuses `smtp_password`: {error.smtp_code}"
        case smtplib.SMTPResponseException():
            return one_line(f"the mail server refuses it: {error.smtp_code} {_text(error.smtp_error)}")
        case ssl.SSLCertVerificationError():
            return f"the certificate of the mail server is not good: {error.verify_message}"
        case TimeoutError():
            return "the mail server does not answer"
        case smtplib.SMTPException():
            return one_line(f"the mail server: {error}")
        case OSError():
            return one_line(f"the mail server cannot be reached: {error.strerror or error}")
        case _:  # its words may hold a part of the mail or of the password
            return f"the mail cannot be sent as it is: {type(error).__name__}"


def _text(said: bytes | str) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said
