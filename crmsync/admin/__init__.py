"""The CRM's part of the admin: what is on its way, what did not arrive, and what holds it up."""

from crmsync.admin import dead, field_mapping, lanes, outbox

__all__ = ["dead", "field_mapping", "lanes", "outbox"]
