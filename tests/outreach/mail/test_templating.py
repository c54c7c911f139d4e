"""A template is wrong when it is saved, or for one lead; never for a sender."""

from typing import Any

import pytest

from outreach.errors import BadTemplate, GateClosed
from outreach.flows.agents import begin_mail, claim_mail
from outreach.flows.previewing import preview
from outreach.flows.sender import send_due
from outreach.mail.compose import Sender, compose
from outreach.mail.templating import compile_text, values_of
from outreach.models import Agent, Message, OutreachEvent
from routing.models import Lead
from tests.outreach.api.asking import Asking
from tests.outreach.make import make_campaign, make_running
from tests.outreach.relays import scripted
from tests.outreach.test_sender import relay_at


def values(**lead: Any) -> dict[str, Any]:
    return values_of(lead=lead, rep=None, campaign="Spring", unsubscribe_url="u")


@pytest.mark.parametrize(
    "source",
    [
        "{{ lead.first_name|default:lead.nosuch }}",
        "{{ lead.first_name|default:nobody }}",
        "{{ lead.first_name|default:lead.fields }}",
        "{{ lead.first_name|cut:None }}",
        "{{ lead.first_name|default:settings.SECRET_KEY }}",
    ],
)
def test_what_a_filter_is_given_must_be_known_too(source: str) -> None:
    with pytest.raises(BadTemplate, match="There is no"):
        compile_text(source)


@pytest.mark.parametrize("braces", ["{{ lead.first_name|cut:1 }}", "{{ lead.first_name|join:1 }}", "{{ 'a'|cut:5 }}"])
def test_a_filter_that_cannot_work_is_refused_with_its_place(braces: str) -> None:
    with pytest.raises(BadTemplate) as refusal:
        compile_text(f"Hello,\n\n{braces}")
    assert f"{braces} in line 3 cannot be filled in" in str(refusal.value)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("Hi {{ lead.first_name }", "In line 1: {{ lead.first_name }"),
        ("{{ lead.first_name", "In line 1: {{ lead.first_name"),
        ("Dear\n{{ lead.first_name }},\nyou at {{ lead.company\n}} know", "In line 3: {{ lead.company }} know"),
        ("Hi { lead.first_name }}, well", "In line 1: Hi { lead.first_name }}"),
        ("Hi,\n{% if lead.company", "In line 2: {% if lead.company"),
    ],
)
def test_broken_braces_are_refused_with_their_place(source: str, place: str) -> None:
    with pytest.raises(BadTemplate) as refusal:
        compile_text(source)
    assert str(refusal.value).endswith(place)


def test_single_braces_are_text() -> None:
    assert compile_text("{x} {{ lead.company }} {").render(values(company="Acme")) == "{x} Acme {"


@pytest.mark.parametrize("first_name", ["", "  "])
def test_a_subject_that_comes_out_empty_makes_no_mail(first_name: str) -> None:
    with pytest.raises(BadTemplate, match="subject is empty"):
        compose(
            step_id=7,
            subject=compile_text("{{ lead.first_name|default:'' }}"),
            body=compile_text("Hello"),
            values=values(first_name=first_name),
            sender=Sender("Pat", "pat@rota.example"),
            address="ann@acme.example",
            way_out="u",
        )


def test_what_is_to_be_written_instead_is_needed_unless_there_is_something_instead_of_it() -> None:
    text = compile_text("{{ lead.first_name|default:lead.fields.nick }}")
    assert (text.needed, text.optional) == ({"lead.fields.nick"}, {"lead.first_name"})
    assert text.missing(values(first_name="Ann")) == ["lead.fields.nick"]
    text = compile_text("{{ lead.first_name|default:lead.fields.nick|default:'there' }}")
    assert text.needed == set() and text.optional == {"lead.first_name", "lead.fields.nick"}
    assert text.render(values()) == "there"
    assert text.render(values(fields={"nick": "Annie"})) == "Annie"


@pytest.mark.parametrize("name", ["items", "clear", "pop", "__class__"])
def test_a_field_that_is_missing_is_no_method_of_a_dict(name: str) -> None:
    try:
        text = compile_text(f"{{{{ lead.fields.{name}|default:'none' }}}}")
    except BadTemplate:
        assert name == "__class__"  # Django takes no name with an underscore before it
        return
    assert text.render(values(fields={"plan": "Pro"})) == "none"


def test_what_fails_for_one_lead_is_said_without_its_value() -> None:
    text = compile_text("Hi {{ lead.first_name|upper }}")
    with pytest.raises(BadTemplate) as refusal:
        text.render({"lead": {"first_name": Tripping("secret")}})
    assert "{{ lead.first_name|upper }} in line 1 cannot be filled in (ZeroDivisionError)" in str(refusal.value)
    assert "secret" not in str(refusal.value)


class Tripping(str):
    """A value that a filter trips over."""

    def __str__(self) -> str:
        raise ZeroDivisionError(super().__str__())


BAD = [
    ("subject", "{{ rep.name|default:'' }}"),
    ("body", "Hi {{ lead.first_name }"),
    ("subject", "{{ lead.first_name|default:lead.nosuch }}"),
    ("body", "{{ lead.first_name|default:lead.fields.nick }}"),
    ("body", "{{ lead.first_name|cut:1 }}"),
    ("subject", "{{ lead.first_name|cut:None }}"),
    ("body", "{{ lead.first_name|join:1 }}"),
    ("subject", "{{ 'a'|cut:5 }}"),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("field", "source"), BAD)
def test_a_bad_template_stops_its_own_campaign_and_no_other(settings: Any, field: str, source: str) -> None:
    bad, good = make_running(), make_running()
    bad.steps.update(**{field: source})  # launched before such templates were refused
    with scripted() as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
    assert (done.sent, done.given_up, done.stopped) == (1, 1, "")
    assert (bad.messages.get().status, good.messages.get().status) == ("failed", "sent")
    assert OutreachEvent.objects.get(message=bad.messages.get(), kind="stopped").reason


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("field", "source"), BAD)
def test_the_preview_and_an_agent_are_told_what_is_wrong_with_a_template(field: str, source: str) -> None:
    campaign = make_running()
    campaign.steps.update(**{field: source})
    assert preview(step=campaign.steps.get(), lead=Lead.objects.latest("pk")).problem
    agent = Agent.objects.get(pk=Asking().agent.pk)
    held = claim_mail(agent=agent, campaign_id=campaign.pk, size=1, lease_s=60)
    assert held is not None
    with pytest.raises(GateClosed) as closed:
        begin_mail(agent=agent, token=held.token, message_id=held.messages[0])
    assert closed.value.reason.startswith("no mail can be made of it")
    assert Message.objects.get().status == "failed"


@pytest.mark.django_db(transaction=True)
def test_a_launch_is_refused_where_a_lead_lacks_what_is_to_be_written_instead() -> None:
    from outreach.errors import LaunchRefused
    from outreach.flows.launching import launch
    from tests.outreach.make import make_leads

    campaign = make_campaign()
    campaign.steps.update(body="{{ lead.first_name|default:lead.fields.nick }}")
    with pytest.raises(LaunchRefused, match=r"leads without lead.fields.nick: 2"):
        launch(campaign_id=campaign.pk, leads=[lead.pk for lead in make_leads(2)], by="test")
