"""The test's database, for programs that the test starts."""

from urllib.parse import quote

from django.db import connection


def database_url() -> str:
    """DATABASE_URL of the database this test works on; a socket folder is percent-encoded, as settings expect it."""
    at = connection.settings_dict
    password = f":{quote(at['PASSWORD'], safe='')}" if at["PASSWORD"] else ""
    port = f":{at['PORT']}" if at["PORT"] else ""
    host = quote(at["HOST"] or "", safe="")
    return f"postgresql://{quote(at['USER'], safe='')}{password}@{host}{port}/{quote(str(at['NAME']), safe='')}"
