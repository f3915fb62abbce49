"""Access: API keys, the scopes that they have, and the principals that use them."""

from onward.core.access.keys import (
    ID_BITS,
    SECRET_BITS,
    ApiKey,
    hash_secret,
    is_key_id,
    is_secret_of,
    make_key,
    parse_key,
)
from onward.core.access.principal import OPEN, Principal, open_principal
from onward.core.access.scopes import (
    POLL,
    POLL_ALL,
    ROLES,
    ROOT,
    SCOPES,
    check_scope,
    poll_scope,
    role_scopes,
    scope_problem,
)

__all__ = [
    "ID_BITS",
    "OPEN",
    "POLL",
    "POLL_ALL",
    "ROLES",
    "ROOT",
    "SCOPES",
    "SECRET_BITS",
    "ApiKey",
    "Principal",
    "check_scope",
    "hash_secret",
    "is_key_id",
    "is_secret_of",
    "make_key",
    "open_principal",
    "parse_key",
    "poll_scope",
    "role_scopes",
    "scope_problem",
]
