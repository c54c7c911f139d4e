from tests.crmsync.conftest import org, org_process  # noqa: F401
