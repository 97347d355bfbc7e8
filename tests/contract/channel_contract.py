"""What every channel of alerts must do."""

from __future__ import annotations

import pytest

from stoker.alerts.channel import Channel, Message, NotDelivered
from stoker.alerts.signing import new_secret
from stoker.core.alerts import Alert
from stoker.core.errors import BadSpec

ODD = "a job\r\nBcc: eve@example.org\x00\x1b[2J <!channel> é 漢字 \ud800" + "x" * 5000


class ChannelContract:
    """Subclass it and give `make`, `good` and `nobody`."""

    good = "https://example.org/secret"  # a target that is in order
    nobody = "http://127.0.0.1:1/"  # one where nobody takes anything

    def make(self) -> Channel:
        """The channel, which may deliver to nobody but public addresses."""
        raise NotImplementedError

    def message(self, text: str = "exit 3") -> Message:
        """What is to be delivered."""
        alert = Alert(event="job-failed", subject=f"p/{text}", at=1.0, title=text, text=text, job="p/j", owner="ada")
        return Message(id="0" * 32, alert=alert, rule="r")

    def test_a_good_target_is_taken_and_a_bad_one_is_told(self) -> None:
        self.make().check(self.good)
        for bad in ("", " ", "\x00", "\r\n", "é" * 300, "x" * 10_000, "../..", "<script>"):
            with pytest.raises(BadSpec) as found:
                self.make().check(bad)
            assert [violation.field for violation in found.value.violations] == ["target"]
            assert len(str(found.value)) < 400

    def test_what_is_shown_says_where_to_and_keeps_secrets(self) -> None:
        assert "example.org" in self.make().shown(self.good) and "secret" not in self.make().shown(self.good)

    @pytest.mark.parametrize("text", ["exit 3", "", ODD])
    def test_what_nobody_takes_is_told_in_a_line(self, text: str) -> None:
        channel = self.make()
        with pytest.raises(NotDelivered) as found:
            channel.send(self.nobody, self.message(text), new_secret() if channel.is_signed else "", 1e9)
        said = str(found.value)
        assert said and said.isprintable() and len(said) < 400
