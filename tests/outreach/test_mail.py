"""What a mail says and to whom: templates that reach nothing, addresses, headers nobody can add to, links."""

import email
import email.policy
from email.message import EmailMessage
from typing import Any

import pytest

from outreach.errors import BadAddress, BadHeader, BadTemplate
from outreach.mail.addresses import wire_address
from outreach.mail.compose import Mail, Sender, compose, mail_id_of
from outreach.mail.links import recipient_of, unsubscribe_url
from outreach.mail.templating import compile_text, values_of

LEAD = {
    "first_name": "Ann",
    "last_name": "Novák",
    "email": "ann@acme.example",
    "company": "",
    "fields": {"plan": "Pro"},
}


def values(**lead: Any) -> dict[str, Any]:
    return values_of(
        lead={**LEAD, **lead}, rep={"name": "Rae", "email": "rae@rota.example"}, campaign="Spring", unsubscribe_url="u"
    )


def write(*, subject: str = "Hi", body: str = "Hello", address: str = "ann@acme.example", **more: Any) -> Mail:
    return compose(
        step_id=7,
        subject=compile_text(subject),
        body=compile_text(body),
        values=more.pop("values", values()),
        sender=more.pop("sender", Sender("Pat Novák, Sales", "pat@rota.example")),
        address=address,
        way_out="https://rota.example/unsubscribe/" + "t" * 200,
    )


def parsed(mail: Mail) -> EmailMessage:
    return email.message_from_bytes(mail.data, policy=email.policy.default)  # type: ignore[return-value]


def test_names_and_filters_are_filled_in() -> None:
    text = compile_text("{{ lead.first_name|upper }} {{ lead.company|default:'your company' }} {{ lead.fields.plan }}")
    assert text.render(values()) == "ANN your company Pro"
    assert text.needed == {"lead.first_name", "lead.fields.plan"} and text.optional == {"lead.company"}


def test_a_value_is_not_a_template_and_not_html() -> None:
    assert (
        compile_text("{{ lead.first_name }}").render(values(first_name="{{ rep.email }} <b>")) == "{{ rep.email }} <b>"
    )


@pytest.mark.parametrize(
    "source",
    [
        "{% include 'admin/base.html' %}",
        "{% load static %}",
        "{% if lead.email %}x{% endif %}",
        "{% debug %}",
        "{{ settings.SECRET_KEY }}",
        "{{ lead.pk }}",
        "{{ lead.fields.plan.upper }}",
        "{{ lead.__class__ }}",
        "{{ lead.first_name|center:'99999999' }}",
        "{{ lead.first_name|safe }}",
        "{{ nobody }}",
    ],
)
def test_a_template_that_reaches_for_anything_else_is_refused(source: str) -> None:
    with pytest.raises(BadTemplate):
        compile_text(source)


def test_a_missing_value_is_named_unless_the_template_says_what_to_write_instead() -> None:
    assert compile_text("{{ lead.company }} {{ lead.fields.size }}").missing(values()) == [
        "lead.company",
        "lead.fields.size",
    ]
    assert compile_text("{{ lead.company|default:'x' }}").missing(values()) == []


def test_the_mail_has_one_recipient_and_a_way_out_in_one_click() -> None:
    mail = parsed(write())
    assert mail["To"] == "ann@acme.example" and mail["Cc"] is None and mail["Bcc"] is None
    assert mail["List-Unsubscribe"] == "<https://rota.example/unsubscribe/" + "t" * 200 + ">"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert "/unsubscribe/" in mail.get_content()


def test_the_message_id_is_the_same_at_every_try_and_another_for_every_step_and_address() -> None:
    assert write().mail_id == write(subject="Changed").mail_id == parsed(write())["Message-ID"]
    ids = {mail_id_of(step_id=s, key=k, sender="p@rota.example") for s in (1, 2) for k in ("a@ex", "b@ex")}
    assert len(ids) == 4


@pytest.mark.parametrize("evil", ["Hi\r\nBcc: x@ex.example", "Hi\nBcc: x@ex.example", "Hi\rX", "Hi\u2028X", "Hi\x00"])
def test_a_value_cannot_grow_into_a_header(evil: str) -> None:
    with pytest.raises(BadHeader):
        write(subject="{{ lead.first_name }}", values=values(first_name=evil))
    with pytest.raises(BadHeader):
        write(sender=Sender(evil, "pat@rota.example"))


def test_no_header_injection_through_an_address() -> None:
    with pytest.raises(BadAddress):
        write(address="ann@acme.example\r\nBcc: x@ex.example")


def test_subjects_and_bodies_outside_ascii_arrive_as_written_over_seven_bits() -> None:
    mail = write(subject="Grüße", body="Žluťoučký kůň " * 100)
    assert mail.data.isascii()
    assert parsed(mail)["Subject"] == "Grüße" and "Žluťoučký kůň" in parsed(mail).get_content()
    assert max(map(len, mail.data.split(b"\r\n"))) < 998


def test_a_domain_outside_ascii_travels_as_idna_2008_and_has_one_key() -> None:
    wire = wire_address("info@straße.test")
    assert (wire.text, wire.needs_utf8) == ("info@xn--strae-oqa.test", False)
    assert wire.key == wire_address("INFO@xn--strae-oqa.TEST").key


def test_capitals_make_no_second_person_and_a_tag_does() -> None:
    assert wire_address("A@Ex.test").key == wire_address("a@ex.test").key
    assert wire_address("a+news@ex.test").key != wire_address("a@ex.test").key


def test_an_address_outside_ascii_before_the_at_needs_smtputf8() -> None:
    assert write(address="zoë@acme.example").needs_utf8
    with pytest.raises(BadAddress):
        write(sender=Sender("Zoë", "zoë@rota.example"))


def test_the_link_names_a_recipient_and_cannot_be_made_up(settings: Any) -> None:
    token = unsubscribe_url(recipient_id=42).rpartition("/")[2].replace("%3A", ":")
    assert recipient_of(token) == 42
    assert recipient_of(token.replace("42", "43")) is None
    assert recipient_of("42") is None and recipient_of("") is None
