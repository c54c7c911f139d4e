"""The parts the operations staff's screens are made of: lists that stay fast, tabs, and questions before a change.

It knows no table of Rota and lives in the lowest app, so that every admin may use it.
"""
