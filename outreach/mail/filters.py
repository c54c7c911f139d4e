"""The filters that campaign templates may use: those of Django's that only change how a text reads."""

from django import template
from django.template import defaultfilters

NAMES = ("capfirst", "cut", "date", "default", "default_if_none", "first", "join", "last", "lower", "title", "upper")
"""None that pads (a text could be made as long as the memory), and none that makes HTML: mails are plain text."""

register = template.Library()
for name in NAMES:
    register.filters[name] = defaultfilters.register.filters[name]
