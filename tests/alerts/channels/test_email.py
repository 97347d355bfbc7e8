"""Mail, to a real SMTP server."""

from __future__ import annotations

import email
import email.policy
import socket
from pathlib import Path

import pytest

from stoker.alerts.channel import Means, Message, NotDelivered
from stoker.alerts.channels.email import Email
from stoker.core.errors import BadSpec
from tests.alerts.builders import an_alert
from tests.alerts.receivers import MailServer, a_certificate, a_mail_server

PASSWORD = "hunter2 !"


def means(server: MailServer, scheme: str = "smtp", user: str = "", password: str = "") -> Means:
    return Means(
        smtp=f"{scheme}://{user}127.0.0.1:{server.port}",
        smtp_password=password,
        sender="stoker@example.org",
        seconds=5.0,
    )


def a_message(text: str = "exit 3", title: str = "") -> Message:
    alert = an_alert(text=text)
    if title:
        import dataclasses

        alert = dataclasses.replace(alert, title=title)
    return Message(id="m1", alert=alert, rule="r")


def read(mail: bytes) -> email.message.EmailMessage:
    found = email.message_from_bytes(mail, policy=email.policy.default)
    assert isinstance(found, email.message.EmailMessage)
    return found


def test_a_mail_is_handed_over() -> None:
    with a_mail_server() as server:
        assert Email(means(server)).send("ada@example.org", a_message(), "", 1e9) == "127.0.0.1 has taken it"
    mail = read(server.mails[0])
    assert server.to == [["ada@example.org"]]
    assert (mail["From"], mail["To"], mail["Subject"]) == (
        "stoker@example.org",
        "ada@example.org",
        "[Stoker] p/j has failed",
    )
    assert (mail["Message-ID"], mail["Auto-Submitted"]) == ("<m1@example.org>", "auto-generated")
    assert "2001" in mail["Date"] and mail.get_content_type() == "text/plain"
    assert mail.get_content().splitlines() == [
        "p/j has failed",
        "",
        "exit 3",
        "",
        "job-failed, 1970-01-12 13:46:40 UTC (ada)",
        "Rule r of stoker alerts; id m1",
    ]


def test_no_text_gets_into_the_headers() -> None:
    odd = "failed\r\nBcc: eve@example.org\r\n\r\nbody \x00 \ud800 漢字" + "x" * 3000
    with a_mail_server() as server:
        Email(means(server)).send("ada@example.org", a_message(odd, odd), "", 1e9)
    mail = read(server.mails[0])
    assert mail["Bcc"] is None and server.to == [["ada@example.org"]]
    assert set(mail.keys()) >= {"From", "To", "Subject", "Date"} and len(mail["Subject"]) <= 150
    assert "漢字" in mail.get_content()


@pytest.mark.parametrize(
    "target",
    [
        "ada",
        "@x",
        "ada@",
        "a b@x.org",
        "ada@x.org,eve@y.org",
        "ada@x.org\r\nBcc: e@y.org",
        "<ada@x.org>",
        "ada@-x",
        "a" * 65 + "@x",
    ],
)
def test_what_is_no_address_is_refused(target: str) -> None:
    with pytest.raises(BadSpec, match="is no address"):
        Email(Means(smtp="smtp://127.0.0.1", sender="s@x")).check(target)


def test_without_a_server_there_is_no_mail() -> None:
    for none in (Means(), Means(smtp="smtp://mail"), Means(sender="s@x")):
        with pytest.raises(BadSpec, match="an admin sets `smtp` and `alerts_from`"):
            Email(none).check("ada@example.org")
        with pytest.raises(NotDelivered, match="an admin sets"):
            Email(none).send("ada@example.org", a_message(), "", 1e9)


@pytest.mark.filterwarnings("ignore:Requiring AUTH")  # the test server does not see the TLS around it
@pytest.mark.parametrize("wrapped", [False, True])
def test_with_tls_it_logs_in(tmp_path: Path, wrapped: bool) -> None:
    theirs, ours = a_certificate(tmp_path)
    with a_mail_server(theirs, wrapped=wrapped, password=PASSWORD) as server:
        how = means(server, "smtps" if wrapped else "smtp", "stoker%40x@", PASSWORD)
        Email(how, ours).send("ada@example.org", a_message(), "", 1e9)
        assert server.logins == [("stoker@x", PASSWORD)] and len(server.mails) == 1
        with pytest.raises(NotDelivered, match="certificate of the mail server is not good"):
            Email(how).send("ada@example.org", a_message(), "", 1e9)
        wrong = means(server, "smtps" if wrapped else "smtp", "stoker%40x@", "wrong")
        with pytest.raises(NotDelivered, match="refuses `smtp_password`: 535"):
            Email(wrong, ours).send("ada@example.org", a_message(), "", 1e9)
        assert len(server.mails) == 1


def test_a_password_is_not_sent_without_tls() -> None:
    with a_mail_server() as server:
        with pytest.raises(NotDelivered, match="no TLS, and the password is not sent"):
            Email(means(server, user="stoker@", password=PASSWORD)).send("ada@example.org", a_message(), "", 1e9)
        assert server.logins == [] and server.mails == []


def test_what_the_server_refuses_is_told() -> None:
    with a_mail_server() as server:
        server.refuses = "550 no such user\tPASS"
        with pytest.raises(NotDelivered, match="refuses the receiver: 550 no such user PASS"):
            Email(means(server)).send("ada@example.org", a_message(), "", 1e9)


def test_who_does_not_answer_is_broken_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        silent = Means(smtp=f"smtp://127.0.0.1:{listening.getsockname()[1]}", sender="s@x.org", seconds=0.2)
        with pytest.raises(NotDelivered, match=r"does not answer|within 0\.2 s"):
            Email(silent).send("ada@example.org", a_message(), "", 1e9)
        port = listening.getsockname()[1]
    with pytest.raises(NotDelivered, match="cannot be reached: Connection refused"):
        Email(Means(smtp=f"smtp://127.0.0.1:{port}", sender="s@x.org")).send("ada@example.org", a_message(), "", 1e9)
