"""Reads a SOQL text into a small tree, or says where it stops being the part of SOQL that this org speaks.

Spoken: SELECT fields (one parent deep) or COUNT(), FROM one object, WHERE with = != <> < <= > >= LIKE IN NOT IN, AND,
OR, NOT and parentheses, ORDER BY, LIMIT, OFFSET. Everything else is MALFORMED_QUERY; nothing is guessed.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from crmsync.sandbox.errors import CallError

TokenKind = Literal["text", "date_time", "date", "number", "name", "sign", "end"]

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.)*')"
    r"|(?P<date_time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))"
    r"|(?P<date>\d{4}-\d\d-\d\d)"
    r"|(?P<number>[+-]?\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z]\w*(?:\.[A-Za-z]\w*)*)"
    r"|(?P<sign><=|>=|!=|<>|[=<>(),])"
    r"|(?P<end>$))",
    re.DOTALL,
)
MOST_DIGITS = 9  # of LIMIT and OFFSET
COMPARISONS = {"=", "!=", "<>", "<", "<=", ">", ">="}


@dataclass(frozen=True)
class Token:
    kind: TokenKind
    text: str
    at: int

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind in ("name", "sign") else ""


@dataclass(frozen=True)
class Name:
    """A field as written, `Email` or `Owner.Email`, and where it stands in the text."""

    text: str
    at: int


@dataclass(frozen=True)
class Comparison:
    """One test. `operator` is a sign, LIKE, IN or NOT IN; the literals are as written, not yet of the field's type."""

    name: Name
    operator: str
    literals: tuple[Token, ...]


@dataclass(frozen=True)
class Group:
    """Tests joined by AND or OR; NOT has one part."""

    operator: Literal["AND", "OR", "NOT"]
    parts: tuple["Condition", ...]


Condition = Comparison | Group


@dataclass(frozen=True)
class Order:
    name: Name
    descending: bool
    nulls: Literal["", "FIRST", "LAST"]


@dataclass(frozen=True)
class Query:
    """A whole SELECT. `fields` is empty for COUNT()."""

    text: str
    fields: tuple[Name, ...]
    from_name: Name
    where: Condition | None = None
    order: tuple[Order, ...] = field(default_factory=tuple)
    limit: int | None = None
    offset: int = 0


def parse(text: str) -> Query:
    """The query in the text. Raises CallError MALFORMED_QUERY."""
    try:
        return _Parser(text).query()
    except RecursionError:
        raise CallError(400, "MALFORMED_QUERY", "the conditions are nested too deep") from None


def complaint(code: str, query: str, at: int, message: str) -> CallError:
    """An error that points at a place in the query, in the form in which Salesforce shows it."""
    before = query[max(0, at - 30) : at]
    shown = before + query[at : at + 30]
    row, column = query.count("\n", 0, at) + 1, at - (query.rfind("\n", 0, at) + 1) + 1
    pointer = " " * len(before) + "^"
    return CallError(400, code, f"\n{shown}\n{pointer}\nERROR at Row:{row}:Column:{column}\n{message}")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenize(text))
        self._next = 0

    def _tokenize(self, text: str) -> list[Token]:
        tokens, at = [], 0
        while True:
            match = _TOKEN.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise complaint("MALFORMED_QUERY", text, at, f"unexpected token: '{text[at : at + 1]}'")
            kind: TokenKind = match.lastgroup  # type: ignore[assignment]
            tokens.append(Token(kind, match.group(kind), match.start(kind)))
            if kind == "end":
                return tokens
            at = match.end()

    def query(self) -> Query:
        self._expect("SELECT")
        fields: list[Name] = []
        if self._peek().word == "COUNT" and self._tokens[self._next + 1].word == "(":
            self._take()
            self._expect("(")
            self._expect(")")
        else:
            fields = self._names()
        self._expect("FROM")
        from_name = self._name()
        where = self._condition() if self._accept("WHERE") else None
        order: list[Order] = []
        if self._accept("ORDER"):
            self._expect("BY")
            order.append(self._order())
            while self._accept(","):
                order.append(self._order())
        limit = self._count() if self._accept("LIMIT") else None
        offset = self._count() if self._accept("OFFSET") else 0
        if self._peek().kind != "end":
            raise self._unexpected()
        return Query(self._text, tuple(fields), from_name, where, tuple(order), limit, offset)

    def _names(self) -> list[Name]:
        names = [self._name()]
        while self._accept(","):
            names.append(self._name())
        return names

    def _condition(self) -> Condition:
        parts = [self._test()]
        operator = self._peek().word
        if operator not in ("AND", "OR"):
            return parts[0]
        while self._accept(operator):
            parts.append(self._test())
        if self._peek().word in ("AND", "OR"):  # SOQL wants parentheses where the two meet
            raise self._unexpected()
        return Group("AND" if operator == "AND" else "OR", tuple(parts))

    def _test(self) -> Condition:
        if self._accept("NOT"):
            return Group("NOT", (self._test(),))
        if self._accept("("):
            inner = self._condition()
            self._expect(")")
            return inner
        name = self._name()
        token = self._take()
        if token.word in COMPARISONS:
            return Comparison(name, token.word.replace("<>", "!="), (self._literal(),))
        if token.word == "LIKE":
            return Comparison(name, "LIKE", (self._literal(),))
        negated = token.word == "NOT"
        if negated:
            token = self._take()
        if token.word != "IN":
            raise self._unexpected(token)
        self._expect("(")
        literals = [self._literal()]
        while self._accept(","):
            literals.append(self._literal())
        self._expect(")")
        return Comparison(name, "NOT IN" if negated else "IN", tuple(literals))

    def _literal(self) -> Token:
        token = self._take()
        if token.kind in ("text", "date_time", "date", "number") or token.word in ("NULL", "TRUE", "FALSE"):
            return token
        raise self._unexpected(token)

    def _order(self) -> Order:
        name = self._name()
        descending = self._accept("DESC")
        if not descending:
            self._accept("ASC")
        if not self._accept("NULLS"):
            return Order(name, descending, "")
        if self._accept("FIRST"):
            return Order(name, descending, "FIRST")
        self._expect("LAST")
        return Order(name, descending, "LAST")

    def _count(self) -> int:
        token = self._take()
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > MOST_DIGITS:
            raise self._unexpected(token)
        return int(token.text)

    def _name(self) -> Name:
        token = self._take()
        if token.kind != "name":
            raise self._unexpected(token)
        return Name(token.text, token.at)

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._peek()
        if token.kind != "end":
            self._next += 1
        return token

    def _accept(self, word: str) -> bool:
        if self._peek().word == word:
            self._next += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._unexpected()

    def _unexpected(self, token: Token | None = None) -> CallError:
        token = token or self._peek()
        shown = "<EOF>" if token.kind == "end" else token.text
        return complaint("MALFORMED_QUERY", self._text, token.at, f"unexpected token: '{shown}'")
