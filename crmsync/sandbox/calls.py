"""One call of the data API: who asks, for what, and how an answer to it is written."""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.requests import Request
from starlette.responses import Response

from crmsync.sandbox.errors import CallError, RowError, not_found
from crmsync.sandbox.journal import Call, Caller
from crmsync.sandbox.org import Org
from crmsync.sandbox.schema import SObject


@dataclass(frozen=True)
class DataCall:
    """A call below /services/data/vNN.0/. `segments`: the rest of the path, each percent-decoded by itself."""

    org: Org
    request: Request
    version: int
    segments: list[str]

    @property
    def method(self) -> str:
        return self.request.method

    @property
    def base(self) -> str:
        return f"/services/data/v{self.version}.0"

    @property
    def journal_call(self) -> Call:
        headers = self.request.headers
        options = dict(
            part.strip().split("=", 1) for part in headers.get("sforce-call-options", "").split(",") if "=" in part
        )
        caller = Caller(options.get("client", ""), headers.get("x-request-id", ""), headers.get("user-agent", ""))
        return Call(caller, self.method, self.request.url.path)

    def sobject(self, name: str) -> SObject:
        """The object of this name. Raises CallError 404."""
        found = self.org.schema.find(name)
        if found is None:
            raise not_found()
        return found

    async def sent(self) -> bytes:
        """What was sent, unpacked if it came packed. Raises CallError 400."""
        raw = await self.request.body()
        if self.request.headers.get("content-encoding", "").lower() != "gzip":
            return raw
        try:
            return gzip.decompress(raw)
        except (OSError, EOFError, zlib.error):
            raise CallError(400, "CLIENT_INPUT_ERROR", "The body is no gzip") from None

    async def body(self) -> dict[str, Any]:
        """The JSON object that was sent. Raises CallError 400."""
        return self.read_json(await self.sent())

    @staticmethod
    def read_json(raw: bytes) -> dict[str, Any]:
        """The JSON object in the text. Raises CallError 400."""
        try:
            document = json.loads(raw, parse_constant=_no_constant)
            if b"\\ud" in raw.lower():  # half a surrogate pair is no text
                json.dumps(document, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise CallError(400, "JSON_PARSER_ERROR", str(error)) from None
        if not isinstance(document, dict):
            raise CallError(400, "JSON_PARSER_ERROR", "The HTTP entity body is required to be one JSON object")
        return document

    @property
    def usage(self) -> dict[str, str]:
        """The header that every answer of the API carries."""
        most = self.org.facts.daily_calls_most
        return {"Sforce-Limit-Info": f"api-usage={self.org.calls}/{most}"}

    @property
    def assignment_rule(self) -> str:
        """What `Sforce-Auto-Assign` says: the active rule unless FALSE, or one by its id (REST API guide)."""
        wanted = self.request.headers.get("sforce-auto-assign", "TRUE")
        return {"TRUE": "active", "FALSE": ""}.get(wanted.upper(), wanted)

    @property
    def allows_duplicates(self) -> bool:
        header = self.request.headers.get("sforce-duplicate-rule-header", "")
        return "allowsave=true" in header.replace(" ", "").lower()

    def answer(self, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        """A JSON answer with the usage header that every answer of the API carries; indented when PrettyPrint asks."""
        indent = 2 if self.request.headers.get("x-prettyprint", "").lower() in ("1", "true") else None
        extra = {**self.usage, **(headers or {})}
        if body is None:
            return Response(status_code=status, headers=extra)
        content = json.dumps(body, ensure_ascii=False, indent=indent)
        return Response(content, status, extra, media_type="application/json;charset=UTF-8")

    def refuse(self, error: CallError) -> Response:
        return self.answer([{"message": error.message, "errorCode": error.code}], error.status)

    def refuse_row(self, error: RowError) -> Response:
        """The error of the only row of a REST call."""
        body = [{"message": error.message, "errorCode": error.code, "fields": list(error.fields)}]
        status = self.org.facts.lock_error_status if error.code == "UNABLE_TO_LOCK_ROW" else error.status
        return self.answer(body, status)

    def not_allowed(self, *methods: str) -> NoReturn:
        text = f"HTTP Method '{self.method}' not allowed. Allowed are {','.join(methods)}"
        raise CallError(405, "METHOD_NOT_ALLOWED", text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
