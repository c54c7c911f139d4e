"""Every write to the CRM lands, once, and without fighting itself for row locks."""
