from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceAuthenticationFailed

from tests.crmsync.sandbox.conftest import Org, running_org


def test_client_credentials_open_a_session(org: Org) -> None:
    assert org.client().query("SELECT COUNT() FROM User")["totalSize"] == 7


def test_a_wrong_secret_is_an_invalid_client(org: Org) -> None:
    with pytest.raises(SalesforceAuthenticationFailed) as refused:
        Salesforce(session=org.session(), domain="127.0.0.1", consumer_key="rota", consumer_secret="wrong")
    assert refused.value.code == "invalid_client"


def test_token_errors_have_the_form_of_oauth(org: Org) -> None:
    url = f"{org.url}/services/oauth2/token"
    response = org.http.post(url, data={"grant_type": "client_credentials", "client_id": "x", "client_secret": "y"})
    assert response.status_code == 400
    assert response.json() == {"error": "invalid_client", "error_description": "invalid client credentials"}
    response = org.http.post(url, data={"grant_type": "refresh_token"})
    assert (response.status_code, response.json()["error"]) == (400, "unsupported_grant_type")


def test_a_call_without_a_good_token_is_refused_with_invalid_session_id(org: Org) -> None:
    for headers in ({}, {"Authorization": "Bearer nonsense"}):
        response = org.http.get(f"{org.url}/services/data/v59.0/sobjects/Lead/describe", headers=headers)
        assert response.status_code == 401
        assert response.json() == [{"message": "Session expired or invalid", "errorCode": "INVALID_SESSION_ID"}]


def test_a_token_ends_when_its_time_is_over_and_the_client_logs_in_again(tmp_path: Path) -> None:
    with running_org(tmp_path, "--token-ttl", "0", "--client-id", "me", "--client-secret", "s") as org:
        url = f"{org.url}/services/oauth2/token"
        token = org.http.post(url, data={"grant_type": "client_credentials"}, auth=("me", "s")).json()["access_token"]
        response = org.http.get(f"{org.url}/services/data/v59.0/limits", headers={"Authorization": f"Bearer {token}"})
        assert response.status_code == 401


def test_a_name_a_password_and_a_security_token_open_a_session_over_soap(org: Org) -> None:
    named = {"username": "ada.reyes@rota.example", "password": "sandbox", "domain": "127.0.0.1"}
    sf = Salesforce(session=org.session(), security_token="token", **named)
    assert sf.sf_instance == org.url.removeprefix("http://")
    assert sf.query("SELECT COUNT() FROM User")["totalSize"] == 7
    for wrong in ({"password": "wrong"}, {"username": "nobody"}, {"username": "finn.larsen@rota.example"}):
        with pytest.raises(SalesforceAuthenticationFailed) as refused:
            Salesforce(session=org.session(), security_token="token", **{**named, **wrong})
        assert refused.value.code == "INVALID_LOGIN"
        assert refused.value.auth_message.startswith("Invalid username, password, security token")


def test_soap_that_is_no_login_is_a_fault(org: Org) -> None:
    for body in ("<x>", "<x><logout/></x>"):
        response = org.http.post(f"{org.url}/services/Soap/u/59.0", data=body)
        assert response.status_code == 500 and "<sf:exceptionCode>INVALID_" in response.text


def test_a_password_and_the_client_s_secret_open_a_session(org: Org) -> None:
    asked: dict[str, Any] = {"username": "ada.reyes@rota.example", "password": "sandboxtoken", "domain": "127.0.0.1"}
    sf = Salesforce(session=org.session(), consumer_key="rota", consumer_secret="sandbox", **asked)
    assert sf.query("SELECT COUNT() FROM User")["totalSize"] == 7
    with pytest.raises(SalesforceAuthenticationFailed) as refused:
        asked["password"] = "wrong"
        Salesforce(session=org.session(), consumer_key="rota", consumer_secret="sandbox", **asked)
    assert refused.value.code == "invalid_grant"


@pytest.mark.filterwarnings("ignore:[\\s\\S]*connected app policy")
def test_a_signed_assertion_opens_a_session(tmp_path: Path) -> None:
    ours, theirs = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    public = ours.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)

    def log_in(key: rsa.RSAPrivateKey, **changed: str) -> Salesforce:
        form = serialization.PrivateFormat.PKCS8
        private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
        asked: Any = {"username": "ada.reyes@rota.example", "consumer_key": "rota", "domain": "127.0.0.1", **changed}
        return Salesforce(session=org.session(), privatekey=private, **asked)

    with running_org(tmp_path / "org", "--jwt-key", str(tmp_path / "key.pem")) as org:
        assert log_in(ours).query("SELECT COUNT() FROM User")["totalSize"] == 7
        for key, changed in [(theirs, {}), (ours, {"consumer_key": "x"}), (ours, {"username": "x"})]:
            with pytest.raises(SalesforceAuthenticationFailed) as refused:
                log_in(key, **changed)
            assert refused.value.code == "invalid_grant"


def test_the_org_says_whose_token_it_is(org: Org) -> None:
    sf = org.client()
    headers = {"Authorization": f"Bearer {sf.session_id}"}
    info = org.http.get(f"{org.url}/services/oauth2/userinfo", headers=headers).json()
    assert info["preferred_username"] == "integration@rota.example"
    assert sf.User.get(info["user_id"])["Name"] == info["name"]
    org.http.post(f"{org.url}/services/oauth2/revoke", data={"token": sf.session_id})
    assert org.http.get(f"{org.url}/services/oauth2/userinfo", headers=headers).status_code == 403


def test_too_many_logins_are_refused_on_every_road(org: Org) -> None:
    org.admin("POST", "settings", {"logins_an_hour_most": 1})
    org.client()
    with pytest.raises(SalesforceAuthenticationFailed) as refused:
        org.client()
    assert refused.value.auth_message == "login rate exceeded"
    with pytest.raises(SalesforceAuthenticationFailed) as refused:
        named = {"username": "ada.reyes@rota.example", "password": "sandbox", "security_token": "token"}
        Salesforce(session=org.session(), domain="127.0.0.1", **named)
    assert refused.value.code == "LOGIN_RATE_EXCEEDED"
