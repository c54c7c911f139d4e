"""The names senders usually give to what Rota wants to know of a lead.

Compared without case, blanks and punctuation: "Work e-mail" is workemail. Earlier ones go before later ones.
"""

USUAL: dict[str, tuple[str, ...]] = {
    "email": ("email", "e-mail address", "work email", "business email", "company email", "your email", "mail"),
    "phone": ("phone", "phone number", "work phone", "mobile", "mobile phone", "mobile number", "telephone", "tel"),
    "first_name": ("first name", "given name", "forename", "your first name"),
    "last_name": ("last name", "surname", "family name", "your last name"),
    "full_name": ("full name", "name", "your name", "contact name"),
    "company": ("company", "company name", "organization", "organisation", "business name"),
    "country": ("country", "country code", "country region"),
}
"""By Rota's field. A full name fills first and last name where these are not given."""
