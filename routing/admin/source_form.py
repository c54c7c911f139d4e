"""The form of a source. Secrets and tokens are entered and never shown in a field; the mapping has a box a field."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from routing.kinds import KINDS, STANDARD
from routing.mapping import NAMES_MOST, TARGETS
from routing.models import InboundSource
from routing.models.source import new_secret, validate_secret
from routing.remote import is_safe

NAME_MOST = 200
MAPPED = tuple(f"map_{ours}" for ours in TARGETS)


def kinds() -> list[tuple[str, str]]:
    """By label, the one that asks least of anybody first."""
    found = sorted((kind.label, name) for name, kind in KINDS.items())
    return sorted(((name, label) for label, name in found), key=lambda choice: choice[0] != STANDARD)


def box(ours: str) -> forms.CharField:
    """A box for the sender's names of one of our fields, one a line."""
    return forms.CharField(
        label=ours.replace("_", " ").replace("email", "e-mail").capitalize(),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "cols": 40, "spellcheck": "false"}),
    )


class SourceForm(forms.ModelForm):
    kind = forms.ChoiceField(choices=kinds, required=False, help_text="Who sends, and how it is signed. Chosen once.")
    new_secret = forms.CharField(
        label="Secret",
        max_length=128,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "size": 60, "spellcheck": "false"}),
    )
    new_api_token = forms.CharField(
        label="API token",
        max_length=500,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 60}),
    )
    map_email = box("email")
    map_phone = box("phone")
    map_first_name = box("first_name")
    map_last_name = box("last_name")
    map_company = box("company")
    map_country = box("country")
    map_full_name = box("full_name")

    class Meta:
        model = InboundSource
        fields = (
            "name",
            "slug",
            "team",
            "sticky_owner",
            "account_owner",
            "active",
            "verify_token",
            "api_url",
            "expects_within_h",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = bool(self.instance.pk)
        kind = KINDS.get(self.instance.kind) if known else None
        self.say("new_secret", self.about_secret(kind.secret_is if kind else None, known))
        if kind and kind.api:
            has = "There is one; a new one replaces it." if self.instance.api_token else "There is none yet."
            self.say("new_api_token", f"{has} It reads leads at {kind.api.url}.")
            self.say("api_url", f"Empty: {kind.api.url}")
        elif not known:
            self.say("new_api_token", "For HubSpot, Meta and LinkedIn; it can be entered later.")
        self.say("verify_token", "Show it to the sender when it asks for one; empty: Rota makes one.")
        self.say("expects_within_h", "After so many hours without any event it counts as silent. Empty: never.")
        for name, label in (("expects_within_h", "Expects an event within, hours"), ("api_url", "API address")):
            if name in self.fields:
                self.fields[name].label = label
        for ours in TARGETS if known else ():
            field = self.fields.get(f"map_{ours}")
            if field is None:
                continue
            field.initial = "\n".join(self.instance.mapping.get(ours, []))
            usual = kind.usual.get(ours, ()) if kind and kind.usual else (ours,)
            field.widget.attrs["placeholder"] = ", ".join(usual[:3])

    @staticmethod
    def about_secret(secret_is: str | None, known: bool) -> str:
        if known and secret_is:
            return f"{secret_is} A new one is taken beside the one until now, until that is dropped."
        if known:
            return "Only to replace the one Rota made by one of your own; see below for the one that counts."
        return (
            "Where the sender makes it (HubSpot, Meta, Webflow, LinkedIn): enter it. Else leave it empty for a new one."
        )

    def say(self, name: str, words: str) -> None:
        if name in self.fields:
            self.fields[name].help_text = words

    def clean_new_secret(self) -> str:
        given: str = self.cleaned_data["new_secret"].strip()
        kind = self.kind_name()
        if given and kind == STANDARD:
            validate_secret(given)
        if not given and not self.instance.pk and KINDS[kind].secret_is:
            raise ValidationError(f"Its sender makes the secret. {KINDS[kind].secret_is}")
        return given

    def clean_api_url(self) -> str:
        given: str = self.cleaned_data["api_url"].strip()
        if given and not is_safe(given):
            raise ValidationError("A token is sent there: it should begin with https://")
        return given

    def kind_name(self) -> str:
        """The kind that is meant: a source that exists keeps its own."""
        return self.instance.kind if self.instance.pk else self.cleaned_data.get("kind") or STANDARD

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        for name in ("new_secret", "new_api_token"):
            given.setdefault(name, "")
        mapping = {}
        for ours in TARGETS:
            names = [line.strip() for line in (given.get(f"map_{ours}") or "").splitlines() if line.strip()]
            if len(names) > NAMES_MOST or any(len(name) > NAME_MOST for name in names):
                self.add_error(f"map_{ours}", f"{NAMES_MOST} names of {NAME_MOST} characters at most.")
            if names:
                mapping[ours] = names
        if self.instance.pk:
            self.instance.mapping = mapping
        given["verify_token"] = given.get("verify_token") or self.instance.verify_token
        return given

    def fill_in_new(self, source: InboundSource) -> None:
        """What a new source needs and nobody typed in."""
        source.kind = self.kind_name()
        source.secret = self.cleaned_data["new_secret"] or source.secret
        source.api_token = self.cleaned_data["new_api_token"].strip()
        if KINDS[source.kind].handshake_type:
            source.verify_token = new_secret()[6:30]
