"""What keys, columns and events are called: by mail providers, senders and spreadsheets; compared by `plain`.

Each list has the best first: where a record has several of them, the one that stands first here counts.
"""

import re
from functools import lru_cache

from outreach.audit.sightings import State
from routing import columns


def listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


EVENT = listed("""
    event eventtype recordtype notificationtype eventname metric status state action result lastevent sttext
    deliverystatus mailstatus ereignis zustand statut estado stato
""")
MAY_BE_OTHERS = ("state", "estado", "type")
"""Names under which other things stand, too: an unknown word there is no event."""
ADDRESS = listed("""
    bouncedrecipients complainedrecipients delayedrecipients recipients recipient email rcptto rcpt emailaddress
    recipientaddress recipientemail recipientemailaddress toaddress toemail toemailaddress sentto to destination
    recipientstatus empfanger empfangeradresse empfangeremail destinataire destinatario mailto address adresse mail
    lead contact contactemail leademail subscriber user an
""")
AT = listed("""
    timestamp deliveredat bouncedat receivedat ts tsevent tsepoch time datetime timedate dateandtime date at sentat
    eventtime eventtimestamp eventdate lasteventtime createdat created occurredat loggedat processedat processed
    sendtime sendat sendate senddate sentdate sentdatetime sentontime senton sentdatetimeutc senttime timesent
    datesent deliverytime deliverydate deliveredon dateutc timeutc timestamputc sentatutc sent delivered when
    zeitpunkt zeitstempel zeit datum datumuhrzeit gesendetam versendetam gesendet versandzeitpunkt versanddatum
    dateheure datedenvoi envoyele horodatage fecha fechayhora fechadeenvio enviado data dataora inviatoil
""")
WORKER = listed("""
    worker workerid workername agent agentid agentname sentby sendingworker sendingagent sendinghost senderhost
    senderhostname sendingserver senderserver fromhost sourcehost clienthost originhost mailserver mta mtahost vmta
    instance instanceid node nodename pod podname container process processid pid thread hostname host server
    servername machine rechner absenderhost serveur servidor sourceip
    sessourceip originatingip
""")
CAMPAIGN = listed("""
    campaign campaignid campaignname mjcampaignid broadcastid broadcast newsletter mailing mailingid singlesendid
    kampagne campagne campana campagna category categories tag tags
""")
STEP = listed("""
    step stepid stepnumber steporder sequencestep schritt
""")
SENDER = listed("""
    from mailfrom fromemail fromaddress senderaddress senderemail friendlyfrom frm source sender absender expediteur
    remitente mittente
""")
SUBJECT = listed("""
    subject sub subjectline betreff objet asunto oggetto
""")
MAIL_ID = listed("""
    smtpid rfcmessageid messageid mailid headermessageid msgid mid nachrichtenid
""")
HANDLE = listed("""
    sgmessageid emailid providerid messageid msgid deliveryid id queueid uid uuid
""")
STATES: dict[State, tuple[str, ...]] = {
    "handed": listed("""
        processed accepted sent send queued injection request requests handed attempt submitted relayed gesendet
        versendet versandt envoye enviado inviato verzonden
    """),
    "delivered": listed("""
        delivered delivery ok success successful open opened opens uniqueopened firstopening click clicked clicks
        spamreport spamcomplaint complaint complained spam proxyopen messagesent initialopen ampopen ampclick
        uniqueclick bounceclick zugestellt geoffnet remis livre delivre ouvert entregado recibido consegnato bezorgd
    """),
    "deferred": listed("""
        deferred delayed delay deliverydelay deliverydelayed messagedelayed softbounce softbounced deferral
    """),
    "bounced": listed("""
        bounce bounced hardbounce hardbounced blocked failed undelivered undeliverable outofband expired
        messagedeliveryfailed messagebounced permanentfail unzustellbar rebotado
    """),
    "dropped": listed("""
        dropped drop rejected reject renderingfailure suppressed invalid invalidemail error cancelled canceled
        policyrejection generationfailure generationrejection skipped messageheld held
    """),
}
STATE_OF: dict[str, State] = {name: state for state, names in STATES.items() for name in names}
NOT_OF_A_MAIL = listed("""
    contactcreated groupresubscribe groupunsubscribe inbound inboundemail linkunsubscribe listaddition
    listunsubscribe scheduled stored subscribe subscribed subscription subscriptionchange unsub unsubscribe
    unsubscribed
""")
KNOWN = frozenset((*EVENT, *ADDRESS, *AT, *WORKER, *CAMPAIGN, *STEP, *SENDER, *SUBJECT, *MAIL_ID, *HANDLE))
A_TIME = re.compile(r"(.*(timestamp|date|time|logged)|created)(utc|gmt|local)?|(time|date)(?!zone)[a-z]+")
"""Part of other names of times: `Start date`, `timeLogged`."""


@lru_cache(maxsize=4_096)
def plain(name: str) -> str:
    """A key or an event's name by its letters and digits: `Message-Id`, `message_id` and `messageId` are one."""
    return columns.plain(name).replace(" ", "")


@lru_cache(maxsize=4_096)
def key_name(name: str) -> str:
    """The same; what imports of leads take for an e-mail address (`E-Mail-Adresse`, `Correo electrónico`) is one."""
    key = plain(name)
    return "email" if key not in KNOWN and columns.field_of(name) == "email" else key
