"""What the check constraints say, in a form that Postgres reads quickly.

Every statement that writes a row reads the checks of its table anew from their stored text, each word of a list as a
node of its own. Written out the usual way that was a sixth of what a mail cost the server.
"""

from collections.abc import Sequence

from django.db.models import BooleanField, F, Func, Q, Value


class Iff(Func):
    """Both conditions hold, or neither. Neither may be null."""

    template = "((%(expressions)s))"
    arg_joiner = ") = ("
    output_field = BooleanField()

    def __init__(self, one: "Q | Func", other: "Q | Func") -> None:
        super().__init__(one, other)


class Among(Func):
    """The column has one of the words, of which none has a comma: an array that is one constant."""

    template = "(%(expressions)s::text[]))"
    arg_joiner = " = ANY ("
    output_field = BooleanField()

    def __init__(self, column: str, words: Sequence[str]) -> None:
        super().__init__(F(column), Value("{" + ",".join(words) + "}"))
