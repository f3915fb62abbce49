"""Values to bytes and back: exact, typed, never pickled.

What goes in with an annotation comes out equal and of the same type, or is refused at the call with
the path to the field. Exceptions, arguments of calls and ids have their rules here too.
"""

from onward.codec.failures import own as _own  # noqa: F401 - registers our errors
from onward.codec.failures.built_in import known_base
from onward.codec.failures.exceptions import decode_error, encode_error, read_error
from onward.codec.failures.failure import Failure, StepFailed
from onward.codec.failures.registry import register_error
from onward.codec.fingerprint import fingerprint, fingerprint_of_json
from onward.codec.names import MAX_ID_BYTES, check_id
from onward.codec.payload import MAX_PAYLOAD, Payload, UnknownTag
from onward.codec.signature import Arguments, CallShape, signature_of
from onward.codec.values import decode, encode, json_kind

__all__ = [
    "MAX_ID_BYTES",
    "MAX_PAYLOAD",
    "Arguments",
    "CallShape",
    "Failure",
    "Payload",
    "StepFailed",
    "UnknownTag",
    "check_id",
    "decode",
    "decode_error",
    "encode",
    "encode_error",
    "fingerprint",
    "fingerprint_of_json",
    "json_kind",
    "known_base",
    "read_error",
    "register_error",
    "signature_of",
]
