"""Read mail logs and find who was mailed twice: pure, of any sender, with or without Rota's ledger beside it."""
