"""The CRM's part of the admin: what is on its way, what did not arrive, and what holds it up."""

from crmsync.admin import account_leads, batches, dead, field_mapping, interventions, jobs, lanes, org, outbox

__all__ = ["account_leads", "batches", "dead", "field_mapping", "interventions", "jobs", "lanes", "org", "outbox"]
