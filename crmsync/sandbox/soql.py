"""Turns a parsed SOQL query into one SQLite statement, and refuses fields and values that the schema does not have.

As in SOQL, text is compared without regard to case, a test against a missing value is false rather than unknown, and
`!=` and `NOT IN` also find records without a value.
"""

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from crmsync.sandbox import ids, times
from crmsync.sandbox.errors import CallError
from crmsync.sandbox.schema import Field, Schema, SObject
from crmsync.sandbox.soql_parser import Comparison, Condition, Name, Query, Token, complaint
from crmsync.sandbox.values import NUMBER_TYPES, TEXT_TYPES

MOST_OFFSET = 2_000  # "SOQL and SOSL Reference", OFFSET

NO_SUCH_COLUMN_ADVICE = (
    "If you are attempting to use a custom field, be sure to append the '__c' after the custom field name. "
    "Please reference your WSDL or the describe call for the appropriate names."
)

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True)
class Column:
    """One selected field: under which parent it is shown ("" for none), and which object that parent is."""

    parent: str
    parent_object: SObject | None
    field: Field


@dataclass(frozen=True)
class Statement:
    """`columns` is empty for COUNT(); else a row holds the record's id, each parent's id, then the columns."""

    sobject: SObject
    sql: str
    parameters: list[Any]
    columns: list[Column]
    parents: list[str]


def compile_query(schema: Schema, query: Query, *, deleted: bool = False) -> Statement:
    """The statement for the query; `deleted` records are found only if wanted. Raises CallError INVALID_TYPE,
    INVALID_FIELD or MALFORMED_QUERY."""
    sobject = schema.find(query.from_name.text)
    if sobject is None:
        text = f"sObject type '{query.from_name.text}' is not supported."
        raise complaint("INVALID_TYPE", query.text, query.from_name.at, text)
    if query.offset > MOST_OFFSET:
        raise CallError(400, "NUMBER_OUTSIDE_VALID_RANGE", f"Maximum SOQL offset allowed is {MOST_OFFSET}")
    return _Compiler(schema, sobject, query).statement(deleted)


class _Compiler:
    def __init__(self, schema: Schema, sobject: SObject, query: Query) -> None:
        self._schema = schema
        self._sobject = sobject
        self._query = query
        self._joins: dict[str, tuple[Field, SObject]] = {}
        self._parameters: list[Any] = []

    def statement(self, deleted: bool) -> Statement:
        columns: list[Column] = []
        for name in self._query.fields:
            column = self._column(name)
            if column in columns:
                raise complaint("MALFORMED_QUERY", self._query.text, name.at, f"duplicate field selected: {name.text}")
            columns.append(column)
        where = self._condition(self._query.where) if self._query.where else "1"
        order = [self._order_sql(order.name, order.descending, order.nulls) for order in self._query.order]
        parents = list(self._joins)
        joins = "".join(
            f' LEFT JOIN "{parent.name}" AS "{name}" '
            f'ON "{name}"."Id" = record."{reference.name}" AND NOT "{name}"."IsDeleted"'
            for name, (reference, parent) in self._joins.items()
        )
        shown = ['record."Id"', *(f'"{name}"."Id"' for name in parents), *(self._sql(column) for column in columns)]
        by = ", ".join([*order, 'record."Id"'])
        kept = "1" if deleted else 'NOT record."IsDeleted"'
        sql = (
            f'SELECT {", ".join(shown)} FROM "{self._sobject.name}" AS record{joins} '
            f"WHERE {kept} AND {where} ORDER BY {by} LIMIT ? OFFSET ?"
        )
        self._parameters += [-1 if self._query.limit is None else self._query.limit, self._query.offset]
        if not columns:
            sql = f"SELECT count(*) FROM ({sql})"
        return Statement(self._sobject, sql, self._parameters, columns, parents)

    def _column(self, name: Name) -> Column:
        *path, last = name.text.split(".")
        if len(path) > 1:
            raise complaint("MALFORMED_QUERY", self._query.text, name.at, "only one parent deep is supported here")
        owner, parent_name = self._sobject, ""
        if path:
            relation = self._sobject.relation(path[0])
            if relation is None or len(relation.to) > 1:
                text = f"Didn't understand relationship '{path[0]}' in field path."
                raise complaint("INVALID_FIELD", self._query.text, name.at, text)
            owner, parent_name = self._schema.objects[relation.to[0]], relation.relationship
            self._joins[parent_name] = (relation, owner)
        known = owner.field(last)
        if known is None:
            text = f"No such column '{last}' on entity '{owner.name}'. {NO_SUCH_COLUMN_ADVICE}"
            raise complaint("INVALID_FIELD", self._query.text, name.at, text)
        return Column(parent_name, owner if parent_name else None, known)

    @staticmethod
    def _sql(column: Column) -> str:
        return f'"{column.parent or "record"}"."{column.field.name}"'

    def _order_sql(self, name: Name, descending: bool, nulls: str) -> str:
        direction = " DESC" if descending else ""
        return f"{self._sql(self._column(name))}{direction}{' NULLS ' + nulls if nulls else ''}"

    def _condition(self, condition: Condition) -> str:
        if isinstance(condition, Comparison):
            return self._comparison(condition)
        parts = [self._condition(part) for part in condition.parts]
        return (
            f"(NOT coalesce({parts[0]}, 0))"
            if condition.operator == "NOT"
            else f"({f' {condition.operator} '.join(parts)})"
        )

    def _comparison(self, comparison: Comparison) -> str:
        column = self._column(comparison.name)
        sql, operator = self._sql(column), comparison.operator
        if operator == "LIKE":
            literal = comparison.literals[0]
            if column.field.type not in TEXT_TYPES or literal.kind != "text":
                self._wrong_value(column.field)
            self._parameters.append(_like_pattern(literal.text))
            return f"({sql} LIKE ? ESCAPE '\\')"
        found = [self._value(column.field, literal) for literal in comparison.literals]
        if operator in ("IN", "NOT IN"):
            given = [value for value in found if value is not None]
            self._parameters += given
            marks = ", ".join("?" for _ in given)
            test = " OR ".join([f"{sql} IN ({marks})"] + ([f"{sql} IS NULL"] if None in found else []))
            return f"(NOT coalesce({test}, 0))" if operator == "NOT IN" else f"({test})"
        self._parameters.append(found[0])
        if operator in ("=", "!="):
            return f"({sql} {'IS' if operator == '=' else 'IS NOT'} ?)"
        return f"({sql} {operator} ?)"

    def _value(self, known: Field, literal: Token) -> Any:
        if literal.word == "NULL":
            return None
        if known.type in TEXT_TYPES and literal.kind == "text":
            return _unescape(literal.text)
        if known.type in ("id", "reference") and literal.kind == "text":
            record_id = ids.canonical(_unescape(literal.text))
            if record_id is None:
                raise CallError(400, "INVALID_QUERY_FILTER_OPERATOR", f"invalid ID field: {_unescape(literal.text)}")
            return record_id
        if known.type in NUMBER_TYPES | {"int"} and literal.kind == "number":
            return float(literal.text)
        if known.type == "boolean" and literal.word in ("TRUE", "FALSE"):
            return int(literal.word == "TRUE")
        try:
            if known.type == "datetime" and literal.kind == "date_time":
                return times.read_date_time(literal.text)
            if known.type == "date" and literal.kind == "date":
                return times.read_date(literal.text)
        except ValueError:
            pass
        self._wrong_value(known)

    @staticmethod
    def _wrong_value(known: Field) -> NoReturn:
        quotes = "should" if known.type in TEXT_TYPES | {"id", "reference"} else "should not"
        text = f"value of filter criterion for field '{known.name}' must be of type {known.type} and {quotes} be "
        raise CallError(400, "INVALID_FIELD", text + "enclosed in quotes")


def _unescape(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), quoted[1:-1], flags=re.DOTALL)


def _like_pattern(quoted: str) -> str:
    r"""The SQL pattern of a quoted SOQL pattern: `\%`, `\_`, `\\` stay escaped, other escapes become their letter."""
    keep = {"%", "_", "\\"}
    return re.sub(
        r"\\(.)",
        lambda match: match[0] if match[1] in keep else _ESCAPES.get(match[1], match[1]),
        quoted[1:-1],
        flags=re.DOTALL,
    )
