"""Every setting of Rota, each from the environment. `.env.example` says what each of them does."""

import sys
from pathlib import Path
from typing import Any

from config.environment import Environment, dotenv

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment(dotenv())

DEBUG = env.flag("DEBUG", False)
SECRET_KEY = env.text("SECRET_KEY")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS", [])
HTTPS_ONLY = env.flag("HTTPS_ONLY", False)

# What `./rota up` serves on, and with how many processes and threads.
HOST = env.text("HOST", "127.0.0.1")
PORT = env.number("PORT", 8000, least=1, most=65_535)
SANDBOX_PORT = env.number("SANDBOX_PORT", 8001, least=1, most=65_535)
WEB_WORKERS = env.number("WEB_WORKERS", 2, least=1, most=64)
WEB_THREADS = env.number("WEB_THREADS", 8, least=1, most=256)

# The turn (routing/sql/take_turns.sql): how long a caller waits for a team's turnstile; how many turns a holder takes.
TURN_WAIT_MS = env.number("TURN_WAIT_MS", 100, least=1, most=10_000)
TURN_MOST = env.number("TURN_MOST", 100, least=1, most=10_000)
SWEEP_MOST = env.number("SWEEP_MOST", 1_000, least=1, most=100_000)

INBOUND_MAX_BYTES = env.number("INBOUND_MAX_BYTES", 256 * 1024, least=1_024, most=16 * 1024 * 1024)
BODY_KEPT_DAYS = env.number("BODY_KEPT_DAYS", 30, least=1, most=3_650)
ANSWER_KEPT_DAYS = env.number("ANSWER_KEPT_DAYS", 90, least=1, most=3_650)
REFUSED_KEPT_DAYS = env.number("REFUSED_KEPT_DAYS", 365, least=1, most=3_650)
FETCH_TIMEOUT_S = env.number("FETCH_TIMEOUT_S", 10, least=1, most=20)
FETCH_ATTEMPTS_MOST = env.number("FETCH_ATTEMPTS_MOST", 8, least=1, most=50)

# Files of leads are kept here until they are imported and looked at; every process of the host must reach the folder.
IMPORT_DIR = env.text("IMPORT_DIR", "var/imports")
IMPORT_MOST_MB = env.number("IMPORT_MOST_MB", 500, least=1, most=10_000)
IMPORT_KEPT_DAYS = env.number("IMPORT_KEPT_DAYS", 90, least=1, most=3_650)
IMPORT_UNDO_H = env.number("IMPORT_UNDO_H", 24, least=0, most=8_760)

# The CRM. CRM_URL is the My Domain address of the org; plain http is taken for this machine's own sandbox org only.
CRM_URL = env.text("CRM_URL", "")
CRM_CLIENT_ID = env.text("CRM_CLIENT_ID", "")
CRM_CLIENT_SECRET = env.text("CRM_CLIENT_SECRET", "")
CRM_IS_SANDBOX = not CRM_URL
if CRM_IS_SANDBOX:  # the local org that `./rota up` starts; it listens on this machine only
    CRM_URL = f"http://127.0.0.1:{SANDBOX_PORT}"
    CRM_CLIENT_ID, CRM_CLIENT_SECRET = CRM_CLIENT_ID or "rota", CRM_CLIENT_SECRET or "sandbox"
CRM_API_VERSION = env.shaped(  # versions up to 30.0 are retired, and Rota's calls came with 42.0
    "CRM_API_VERSION", "59.0", shape=r"(4[2-9]|[5-9]\d|\d{3})\.0", wanted="a version such as 59.0, 42.0 or newer"
)
CRM_EXTERNAL_ID_FIELD = env.field("CRM_EXTERNAL_ID_FIELD", "Rota_Id__c")
CRM_MAIL_FIELDS = {  # Rota's names to those of the org's own fields, which an org has or has not
    name: field
    for name, field in {
        "last_campaign": env.field("CRM_LAST_CAMPAIGN_FIELD"),
        "last_campaign_step": env.field("CRM_LAST_CAMPAIGN_STEP_FIELD"),
        "last_mailed_at": env.field("CRM_LAST_MAILED_AT_FIELD"),
    }.items()
    if field
}
CRM_TIMEOUT_S = env.number("CRM_TIMEOUT_S", 20, least=1, most=600)
CRM_LEASE_S = env.number("CRM_LEASE_S", 60, least=2, most=3_600)
CRM_QUARANTINE_S = env.number("CRM_QUARANTINE_S", 15, least=0, most=600)
CRM_PAUSE_S = env.number("CRM_PAUSE_S", 60, least=1, most=3_600)
CRM_BACKOFF_FIRST_MS = env.number("CRM_BACKOFF_FIRST_MS", 1_000, least=10, most=600_000)
CRM_BACKOFF_CAP_MS = env.number("CRM_BACKOFF_CAP_MS", 300_000, least=10, most=3_600_000)
env.in_order("CRM_BACKOFF_FIRST_MS", CRM_BACKOFF_FIRST_MS, "CRM_BACKOFF_CAP_MS", CRM_BACKOFF_CAP_MS)
CRM_KEEP_DAYS = env.number("CRM_KEEP_DAYS", 30, least=1, most=3_650)
CRM_KEEP_BATCH_DAYS = env.number("CRM_KEEP_BATCH_DAYS", 90, least=1, most=3_650)
PUSH_UPLOAD_MAX_MB = env.number("PUSH_UPLOAD_MAX_MB", 20, least=1, most=200)
CRM_ATTEMPTS_MOST = env.number("CRM_ATTEMPTS_MOST", 8, least=1, most=50)
CRM_ROADS = env.pairs("CRM_ROADS", values=("auto", "collections", "bulk2", "bulk1"))  # crmsync/roads.py
CRM_BULK_FROM = env.number("CRM_BULK_FROM", 2_000, least=201, most=1_000_000)
CRM_RELATIONS = env.pairs(  # crmsync/lockpolicy.py
    "CRM_RELATIONS", values=("master-detail", "roll-up", "lookup", "restricted-lookup", "cleared-lookup")
)
CRM_OWNER_LOCKS = env.words("CRM_OWNER_LOCKS", [])
CRM_CONCURRENCY_MOST = env.number("CRM_CONCURRENCY_MOST", 8, least=1, most=100)
CRM_SERIAL_AFTER = env.number("CRM_SERIAL_AFTER", 4, least=1, most=50)
CRM_POLL_FIRST_MS = env.number("CRM_POLL_FIRST_MS", 1_000, least=10, most=600_000)
CRM_JOB_MOST_S = env.number("CRM_JOB_MOST_S", 86_400, least=10, most=604_800)

# Campaign mail leaves through one relay, over SMTP (EMAIL_HOST), or through a provider's HTTP API (EMAIL_PROVIDER).
# Without either it stays in a local mailbox, beside the sandbox org only: an installation with a real CRM that forgot
# its relay must not believe that mails went.
PUBLIC_URL = env.text("PUBLIC_URL", f"http://{HOST}:{PORT}")
EMAIL_HOST = env.text("EMAIL_HOST", "")
EMAIL_PROVIDER = env.text("EMAIL_PROVIDER", "")
EMAIL_PORT = env.number("EMAIL_PORT", 587, least=1, most=65_535)
MAILBOX_PORT = env.number("MAILBOX_PORT", 8002, least=1, most=65_535)
MAILBOX_FOLDER = env.text("MAILBOX_FOLDER", "var/mailbox")
MAIL_STAYS_HERE = CRM_IS_SANDBOX and not (EMAIL_HOST or EMAIL_PROVIDER)
if MAIL_STAYS_HERE:
    EMAIL_HOST, EMAIL_PORT = "127.0.0.1", MAILBOX_PORT
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = env.flag("EMAIL_USE_SSL", False)
EMAIL_PHASE_TIMEOUT_S = env.number("EMAIL_PHASE_TIMEOUT_S", 30, least=1, most=600)
EMAIL_REPLY_TIMEOUT_S = env.number("EMAIL_REPLY_TIMEOUT_S", 600, least=1, most=3_600)  # RFC 5321, 4.5.3.2.6
EMAIL_PROVIDER_KEY = env.text("EMAIL_PROVIDER_KEY", "")
EMAIL_PROVIDER_URL = env.text("EMAIL_PROVIDER_URL", "")
EMAIL_PROVIDER_WEBHOOK_SECRET = env.text("EMAIL_PROVIDER_WEBHOOK_SECRET", "")
MAIL_EVENTS_SECRET = env.text("MAIL_EVENTS_SECRET", "")
SEND_BATCH = env.number("SEND_BATCH", 50, least=1, most=1_000)
SEND_BUDGET_S = env.number("SEND_BUDGET_S", 45, least=1, most=3_600)
SEND_LONGEST_S = SEND_BUDGET_S + 9 * EMAIL_PHASE_TIMEOUT_S + EMAIL_REPLY_TIMEOUT_S  # outreach/mail/timing.py
CLAIM_LEASE_S = env.number("CLAIM_LEASE_S", 1_800, least=2, most=86_400)
QUIET_PERIOD_H = env.number("QUIET_PERIOD_H", 72, least=0, most=8_760)
SEND_ATTEMPTS_MOST = env.number("SEND_ATTEMPTS_MOST", 8, least=1, most=50)
SEND_BACKOFF_FIRST_S = env.number("SEND_BACKOFF_FIRST_S", 300, least=0, most=86_400)
SEND_BACKOFF_CAP_S = env.number("SEND_BACKOFF_CAP_S", 14_400, least=0, most=604_800)
env.in_order("SEND_BACKOFF_FIRST_S", SEND_BACKOFF_FIRST_S, "SEND_BACKOFF_CAP_S", SEND_BACKOFF_CAP_S)
NOTICE_FROM = env.text("NOTICE_FROM", "")
SENDER_STOP_S = env.number("SENDER_STOP_S", 900, least=1, most=86_400)
JOB_LOCK_URL = env.text("JOB_LOCK_URL", "")

# External senders and AI agents: requests of each a minute.
AGENT_RATE_PER_MIN = env.number("AGENT_RATE_PER_MIN", 1_200, least=1, most=1_000_000)

LOG_LEVEL = env.text("LOG_LEVEL", "INFO").upper()

INSTALLED_APPS = [
    "config.apps.RotaConfig",  # before the admin, so that its templates win
    "config.apps.RotaAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_q",
    "ninja",  # for the files of its documentation page, which then come from here
    "crmsync",
    "routing",
    "outreach",
]

MIDDLEWARE = [
    "config.middleware.RequestIdMiddleware",
    "config.middleware.NoNulMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.middleware.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
if DEBUG and "pytest" not in sys.modules:
    INSTALLED_APPS.append("debug_toolbar")
    MIDDLEWARE.insert(1, "debug_toolbar.middleware.DebugToolbarMiddleware")
    INTERNAL_IPS = ["127.0.0.1", "::1"]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# Timeouts hold for every connection. lock_timeout is also how long a duplicate delivery waits for the first: 2 s.
DATABASES = {"default": env.postgres("DATABASE_URL")}
DB_LOCK_TIMEOUT_MS = env.number("DB_LOCK_TIMEOUT_MS", 2_000, least=1, most=60_000)
DB_STATEMENT_TIMEOUT_MS = env.number("DB_STATEMENT_TIMEOUT_MS", 30_000, least=100, most=600_000)
DB_IDLE_TIMEOUT_MS = env.number("DB_IDLE_TIMEOUT_MS", 30_000, least=100, most=600_000)
if DATABASES["default"]:
    DATABASES["default"] |= {
        "CONN_MAX_AGE": 3_600,  # a new connection has cold plans
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "ATOMIC_REQUESTS": False,
        "OPTIONS": {
            **DATABASES["default"].get("OPTIONS", {}),
            "application_name": "rota",
            "connect_timeout": 5,
            "options": f"-c lock_timeout={DB_LOCK_TIMEOUT_MS} -c statement_timeout={DB_STATEMENT_TIMEOUT_MS} "
            f"-c idle_in_transaction_session_timeout={DB_IDLE_TIMEOUT_MS} -c timezone=UTC",
        },
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# A task may drain for 20 s, and then one more call of its own may take its whole deadline and be prepared before it
# (crmsync/checks.py holds this to that). Also in the default queue the org is asked, so both have the same time.
TASK_MOST_S = max(50, 22 + CRM_TIMEOUT_S * 3 // 2)

# django-q2 is a clock and a pair of hands. `retry` starts at prefetch, so it must exceed
# (ceil((queue_limit + bulk) / workers) + 1) * timeout + 5; config/checks.py holds every queue to that.
Q_WORKERS = env.number("Q_WORKERS", 2, least=1, most=32)
CRM_WORKERS = env.number("CRM_WORKERS", 4, least=1, most=32)
Q_CLUSTER: dict[str, Any] = {
    "name": "default",
    "orm": "default",
    "poll": 0.05,
    "workers": Q_WORKERS,
    "queue_limit": Q_WORKERS,
    "bulk": 1,
    "timeout": TASK_MOST_S,
    "retry": 4 * TASK_MOST_S + 40,
    "ack_failures": True,
    "max_attempts": 1,
    "catch_up": False,
    "save_limit": -1,
    "recycle": 500,
    "guard_cycle": 0.5,
    "label": "Task queue",
    "ALT_CLUSTERS": {
        "crm": {"workers": CRM_WORKERS, "queue_limit": CRM_WORKERS, "scheduler": False},
        # A task may wait for one slow reply of the relay; killed before that, its mail is in doubt.
        "outreach": {
            "workers": Q_WORKERS,
            "queue_limit": Q_WORKERS,
            "timeout": SEND_LONGEST_S + 30,
            "retry": 4 * (SEND_LONGEST_S + 30),
            "scheduler": False,
        },
    },
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "admin:login"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "var" / "static"
STATICFILES_DIRS = [BASE_DIR / "templates" / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS_ONLY
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS_ONLY else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS_ONLY else None
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = INBOUND_MAX_BYTES

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {name: {"level": LOG_LEVEL} for name in ("config", "routing", "outreach", "crmsync", "django.server")},
}

env.check()
