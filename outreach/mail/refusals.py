"""Whom a refusal is about: a mailbox that does not exist, us, or this one mail.

The enhanced code decides where it says anything (RFC 3463, section 3; RFC 7505 for 5.1.10; RFC 7293 for 5.7.17 and
5.7.18), else the words do: the codes of RFC 5321 do not tell. Its 550 stands for "mailbox not found, no access, or
command rejected for policy reasons" (4.2.3). Only what clearly says that the mailbox is not there suppresses an
address. X.7.x is about security and policy, so as a rule about who asks: by our own misconfiguration, or a list that we
are on, every lead would be refused alike.
"""

import re
from typing import Literal

About = Literal["mailbox", "us", "this mail"]

ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3}(?!\S)")
GONE = ("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1")
"""No such mailbox, no such system, no address, moved, a domain that takes no mail, disabled."""
OUR_ADDRESS = ("5.1.7", "5.1.8")
"""The sender's address."""
ITS_OWN_RULES = ("5.7.2", "5.7.17", "5.7.18", "5.7.124", "5.7.133", "5.7.134")
"""Policy of one address: a list that takes nothing from outside, a mailbox that has another owner (the last three are
Exchange's)."""
SAYS_NOTHING = re.compile(r"[45]\.(0\.\d+|1\.0|5\.\d+)")
"""Other or undefined, and the protocol's own: the words have to say it."""

ADDRESS = re.compile(r"<[^>]*>|\S*@\S*")
RELAY = re.compile(r"\brelay(ing)?\b", re.IGNORECASE)
RULES = re.compile(
    "|".join(
        (
            r"\brelay|\bden(y|ied|ies)\b|block|black-?list|reputation|prohibited|banned|\bspam|polic(y|ies)",
            r"authenti|\bauth\b|not (allowed|permitted|authori[sz]ed)|unauthori[sz]ed",
            r"\bdnsbl|\brbl\b|\bspf\b|\bdkim\b|\bdmarc\b|\bsender\b|\b(helo|ehlo)\b|client host|reverse dns",
            r"\byour (account|domain|ip|host|server|network|message)",
        )
    ),
    re.IGNORECASE,
)
WHO = r"(user|mailbox|recipient|account|address|addressee|person)"
NOT_THERE = re.compile(
    rf"\bno such {WHO}|\bno {WHO} (here|by that name)|\b(unknown|invalid|non-?existent|disabled|inactive) {WHO}"
    rf"|\b{WHO}\b[^.;]{{0,40}}?\b(unknown|not (found|exist|known)|does ?n[o']t exist|doesn't have|no longer|disabled"
    r"|deactivated|inactive|non-?existent)\b",
    re.IGNORECASE,
)


def about(*, code: int, reply: str) -> About:
    """Read a refusal of RCPT or of what follows it; one for now (4xx) is about us only where it speaks of relaying."""
    enhanced = ENHANCED.match(reply.strip())
    said, words = enhanced.group() if enhanced else "", ADDRESS.sub(" ", reply)
    if code < 500:
        return "us" if RELAY.search(words) else "this mail"
    if said in GONE:
        return "mailbox"
    if said in ITS_OWN_RULES:
        return "this mail"
    if said in OUR_ADDRESS or said.startswith("5.7."):
        return "us"
    if said and not SAYS_NOTHING.fullmatch(said):
        return "this mail"
    if RULES.search(words):
        return "us"
    return "mailbox" if code in (550, 551, 553) and NOT_THERE.search(words) else "this mail"
