"""ROTA_TOKEN=... python3 example_agent.py URL leads JOB TEAM, or URL mail CAMPAIGN RELAY_HOST RELAY_PORT"""

import base64, json, os, smtplib, sys, time, urllib.error, urllib.request, uuid


def post(path, **body):
    """Ask Rota. The key is the same at every try, so trying again is safe. A refusal says why: then do not act."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['ROTA_TOKEN']}"}
    headers["Idempotency-Key"] = uuid.uuid4().hex
    request = urllib.request.Request(f"{sys.argv[1]}/api/{path}", json.dumps(body).encode(), headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code < 500 and "Retry-After" not in refusal.headers:
                return {"refused": json.load(refusal)["detail"]} if refusal.code == 409 else sys.exit(refusal.read())
        except OSError:
            pass  # the answer was lost, or nobody listens
        time.sleep(1)


def work_on_leads(job, team):
    while (batch := post("leads/claims", job=job, team=int(team), size=20, lease_s=60)).get("leads"):
        for lead in batch["leads"]:
            if "refused" not in post(f"leads/claims/{batch['claim']}/leads/{lead['lead']}/begin"):
                print(lead["lead"], flush=True)  # here you call, write, enrich: once
                post(f"leads/claims/{batch['claim']}/settle", results=[{"lead": lead["lead"], "outcome": "done"}])


def send_mail(campaign, host, port):
    while (batch := post("mail/claims", campaign=int(campaign), size=20)).get("messages"):
        for due in batch["messages"]:
            begun = post(f"mail/claims/{batch['claim']}/messages/{due['message']}/begin")
            if "refused" not in begun:
                result = hand_over(begun["mail"], host, int(port))
                post(f"mail/attempts/{begun['attempt']}/settle", claim=batch["claim"], **result)


def hand_over(mail, host, port):
    options = [] if mail["recipient"].isascii() else ["SMTPUTF8", "BODY=8BITMIME"]
    try:
        relay = smtplib.SMTP(host, port, timeout=30)
        relay.sendmail(mail["envelope_from"], [mail["recipient"]], base64.b64decode(mail["raw"]), options)
        return {"outcome": "sent"}
    except smtplib.SMTPRecipientsRefused as refusal:  # by the code Rota knows a dead mailbox, and suppresses it
        (code, reply), fault = refusal.recipients[mail["recipient"]], ""
    except smtplib.SMTPDataError as refusal:
        code, reply, fault = *refusal.args, "content"
    except (smtplib.SMTPNotSupportedError, UnicodeError):
        code, reply, fault = 553, b"5.6.7 no SMTPUTF8 here", "recipient"
    except OSError as broken:  # where it may have gone, it is in doubt: nobody sends it again by itself
        closed = isinstance(broken, (ConnectionRefusedError, smtplib.SMTPResponseException))
        code, reply, fault = 421 if closed else 0, str(broken).encode(), "road"
    outcome = "refused" if 500 <= code < 600 else "deferred" if 400 <= code < 500 else "in_doubt"
    text = reply.decode(errors="replace")[:1000]
    return {"outcome": outcome, "fault": fault, "code": max(code, 0) or None, "reply": text}


{"leads": work_on_leads, "mail": send_mail}[sys.argv[2]](*sys.argv[3:])
