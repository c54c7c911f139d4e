"""Headers say exactly what somebody typed, and nobody's text becomes a header or a body of its own."""

import email
import email.errors
import email.policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parseaddr
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outreach.errors import BadHeader
from outreach.mail.compose import Mail, Sender, compose
from outreach.mail.notice import Told, compose_notice
from outreach.mail.parts import parts_of
from outreach.mail.templating import compile_text, values_of
from outreach.mail.writing import free_text, mailbox, written
from outreach.models import Message, SendAttempt
from tests.outreach.make import make_running
from tests.outreach.provider import provider

EVIL = "=?utf-8?q?x=0D=0ABcc:victim@other.example=0D=0AReply-To:evil@other.example=0D=0A=0D=0AInjected=20body?="
OURS = ["Message-ID", "List-Unsubscribe", "List-Unsubscribe-Post", "From", "To", "Subject", "Date", "Auto-Submitted"]
OF_THE_BODY = ["Content-Type", "Content-Transfer-Encoding", "MIME-Version"]
STRICT = email.policy.strict
CONTROL = [*map(chr, range(32)), "\x7f", "\x85", "\u2028", "\u2029"]

typed = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=CONTROL), max_size=120)
"""What can be typed into a name, ..."""
pieces = st.lists(
    st.sampled_from(["=?", "?=", "=?utf-8?q?", "=0D=0A", "=?utf-8?b?DQpYOiB5?=", " ", '"', "\\", ",", "é"])
)
"""... and what somebody types on purpose."""
texts = st.one_of(typed, pieces.map("".join), st.tuples(typed, pieces.map("".join), typed).map("".join))


def write(*, first_name: str = "Ann", name: str = "Pat", address: str = "ann@acme.example") -> Mail:
    lead = {"first_name": first_name, "email": address}
    return compose(
        step_id=7,
        subject=compile_text("Hi {{ lead.first_name }}"),
        body=compile_text("Hello"),
        values=values_of(lead=lead, rep=None, campaign="Spring", unsubscribe_url="u"),
        sender=Sender(name, "pat@rota.example"),
        address=address,
        way_out="https://rota.example/unsubscribe/t",
    )


def read(data: bytes) -> EmailMessage:
    """Parse it, with an exception for whatever is not as RFC 5322 has it."""
    return email.message_from_bytes(data, policy=STRICT)


def folded(data: bytes) -> list[str]:
    """The names of the header lines, as the bytes have them."""
    head = data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return [line.split(b":")[0].decode() for line in head if not line.startswith(b" ")]


def as_read(value: str) -> str:
    line = value.replace("\r\n", "")
    return str(make_header(decode_header(line))) if "=?" in line else line


@given(first_name=texts, name=texts)
def test_a_mail_has_the_headers_that_were_written_and_says_what_was_typed(first_name: str, name: str) -> None:
    mail = write(first_name=first_name, name=name)
    parsed = read(mail.data)
    assert folded(mail.data) == parsed.keys() == OURS + OF_THE_BODY
    assert str(parsed["Subject"]) == mail.subject == f"Hi {first_name}"
    assert parsed["To"] == "ann@acme.example" and "pat@rota.example" in str(parsed["From"])
    assert parsed.get_content().splitlines()[0] == "Hello"
    assert max(map(len, mail.data.split(b"\r\n"))) < 998 and mail.data.isascii()
    parts = parts_of(mail)
    assert parts.subject == mail.subject and as_read(parseaddr(parts.sender)[0]) == name.strip()


@given(texts)
def test_a_name_reads_as_it_was_typed(name: str) -> None:
    value = mailbox(name, "pat@rota.example")
    phrase = value.removesuffix("<pat@rota.example>").removesuffix("pat@rota.example").rstrip()
    if phrase.startswith('"'):
        assert phrase.endswith('"') and "=?" not in phrase
        assert phrase[1:-1].replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\") == name.strip()
    else:
        assert as_read(phrase) == name.strip()


@pytest.mark.parametrize("where", ["first_name", "name"])
def test_an_encoded_word_in_a_name_is_text(where: str) -> None:
    mail = write(**{where: EVIL})
    parsed = read(mail.data)
    assert parsed.keys() == OURS + OF_THE_BODY
    sender = parseaddr(parts_of(mail).sender)[0]
    assert EVIL in (str(parsed["Subject"])[3:], as_read(sender))
    assert b"Bcc" not in mail.data and b"Injected" not in mail.data and "Injected" not in parsed.get_content()


def test_an_encoded_word_makes_no_header_of_a_notice(settings: Any) -> None:
    settings.NOTICE_FROM, settings.PUBLIC_URL = "leads@rota.example", "https://rota.example/"
    told = Told(7, EVIL, "Acme", ("ann@acme.example",), "Web", "in turn")
    mail = compose_notice(mail_id=1, address="pat@rota.example", rep=EVIL, leads=[told])
    parsed = read(mail.data)
    head = ["From", "To", "Subject", "Date", "Auto-Submitted", "Message-ID"]
    assert parsed.keys() == folded(mail.data) == head + OF_THE_BODY
    assert str(parsed["Subject"]) == f"New lead: {EVIL}, Acme"


@pytest.mark.parametrize("control", CONTROL)
def test_a_text_with_a_control_character_is_refused(control: str) -> None:
    with pytest.raises(BadHeader):
        free_text(f"Hi{control}there")
    with pytest.raises(BadHeader):
        mailbox(f"Hi{control}there", "pat@rota.example")


def test_what_the_email_package_refuses_is_one_bad_mail_and_no_crash(monkeypatch: Any) -> None:
    class HeaderWriteError(email.errors.MessageError):
        """Newer Pythons raise this."""

    def refuse(self: EmailMessage) -> bytes:
        raise HeaderWriteError

    monkeypatch.setattr(EmailMessage, "as_bytes", refuse)
    with pytest.raises(BadHeader, match="HeaderWriteError"):
        written([("Subject", "Hi")], "Hello", utf8=False)
    monkeypatch.undo()
    with pytest.raises(BadHeader, match="UnicodeEncodeError"):
        written([("Subject", "Hi")], "\ud800", utf8=False)
    with pytest.raises(BadHeader):
        write(first_name="\ud800")


def test_a_name_in_quotes_and_one_outside_ascii_arrive_as_typed() -> None:
    assert b'From: "Novak, \\"Pat\\"" <pat@rota.example>\r\n' in write(name='Novak, "Pat"').data
    assert read(write(name="Pat Novák, Sales").data)["From"].addresses[0].display_name == "Pat Novák, Sales"
    assert b"From: Pat Novak <pat@rota.example>\r\n" in write(name="Pat Novak").data
    mail = write(address="zoë@acme.example", first_name="Zoë")
    assert read(mail.data)["To"] == "zoë@acme.example" and str(read(mail.data)["Subject"]) == "Hi Zoë"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["postmark", "resend", "brevo"])
def test_a_provider_gets_a_name_that_looks_encoded_as_text(settings: Any, kind: str) -> None:
    from tests.outreach.test_hosted import sent, through

    make_running(from_name=EVIL)
    with provider(kind) as api:
        through(settings, api)
        assert sent().sent == 1
    mail = api.taken[0]["mail"]
    said = mail["sender"]["name"] if kind == "brevo" else str(mail.get("From") or mail.get("from"))
    assert as_read(said.partition(" <")[0]) == EVIL and "Bcc" not in str(mail)
    assert Message.objects.get().status == "sent" and SendAttempt.objects.count() == 1
