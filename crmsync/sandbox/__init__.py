"""A Salesforce org that runs on this machine: it the same calls, the same fights over row locks.

It stands alone: it imports nothing of Rota, and of Rota only the `sandbox_org` command starts it.
"""
