from pathlib import Path

import pytest
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
    response = org.http.post(url, data={"grant_type": "password"})
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
