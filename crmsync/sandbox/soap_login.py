"""The SOAP login: a user's name and password buy a session, or a LoginFault says why not."""

from xml.etree import ElementTree
from xml.sax.saxutils import escape

from starlette.requests import Request
from starlette.responses import Response

from crmsync.sandbox.org import Org
from crmsync.sandbox.sessions import ORG_ID, TooManyLogins

ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns="urn:partner.soap.sforce.com" '
    'xmlns:sf="urn:fault.partner.soap.sforce.com" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
    "<soapenv:Body>{}</soapenv:Body></soapenv:Envelope>"
)
WRONG = "Invalid username, password, security token; or user locked out."


async def login(request: Request) -> Response:
    """`POST /services/Soap/u/{version}`. Faults are HTTP 500, as SOAP wants it."""
    org: Org = request.app.state.org
    try:
        root = ElementTree.fromstring(await request.body())
    except ElementTree.ParseError:
        return _fault("sf:INVALID_SOAP", "The envelope cannot be read")
    asked = root.find(".//{*}login")
    if asked is None:
        return _fault("sf:INVALID_OPERATION", "Only login is spoken here")
    user = org.user_with(asked.findtext("{*}username") or "", asked.findtext("{*}password") or "")
    try:
        if user is None:
            return _fault("INVALID_LOGIN", WRONG)
        session = await org.sessions.open(user)
    except TooManyLogins:
        return _fault("LOGIN_RATE_EXCEEDED", "Login rate exceeded")
    host = request.headers.get("host", request.url.netloc)
    url = f"http://{host}{request.url.path}/{ORG_ID}"
    name = (org.store.get(org.schema.objects["User"], user) or {}).get("Username", "")
    info = (
        f"<userInfo><organizationId>{ORG_ID}</organizationId><userId>{user}</userId><userName>{escape(name)}</userName>"
    )
    result = (
        f"<loginResponse><result><metadataServerUrl>{url.replace('/u/', '/m/')}</metadataServerUrl>"
        f"<passwordExpired>false</passwordExpired><sandbox>true</sandbox><serverUrl>{url}</serverUrl>"
        f"<sessionId>{session}</sessionId><userId>{user}</userId>{info}</userInfo></result></loginResponse>"
    )
    return Response(ENVELOPE.format(result), media_type="text/xml;charset=UTF-8")


def _fault(code: str, message: str) -> Response:
    code = code.removeprefix("sf:")
    detail = f"<sf:exceptionCode>{code}</sf:exceptionCode><sf:exceptionMessage>{message}</sf:exceptionMessage>"
    fault = (
        f"<soapenv:Fault><faultcode>sf:{code}</faultcode><faultstring>{code}: {message}</faultstring>"
        f'<detail><sf:LoginFault xsi:type="sf:LoginFault">{detail}</sf:LoginFault></detail></soapenv:Fault>'
    )
    return Response(ENVELOPE.format(fault), 500, media_type="text/xml;charset=UTF-8")
