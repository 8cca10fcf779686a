"""Messages between TcpStore and StoreServer: a client sends one request and waits for its reply."""

from __future__ import annotations

import struct
from enum import IntEnum

HELLO = b"store"
REQUEST = struct.Struct(">BHI")
"""Operation, bytes of the key, bytes of the value; then key and value."""
REPLY = struct.Struct(">BI")
"""DONE or REFUSED, and the number of bytes that follow: the value, or a sentence that says why."""
AMOUNT = struct.Struct(">q")
"""The value of an ADD."""
DONE, REFUSED = 0, 1

MAX_KEY_BYTES = 1 << 10
MAX_VALUE_BYTES = 16 << 20


class Operation(IntEnum):
    """What a request asks for; the reply to a GET is sent when the key exists."""

    SET = 1
    GET = 2
    ADD = 3


VALUE_BYTES = {
    Operation.SET: range(MAX_VALUE_BYTES + 1),
    Operation.GET: range(1),
    Operation.ADD: range(AMOUNT.size, AMOUNT.size + 1),
}


def fault_of(operation: int, key_bytes: int, value_bytes: int) -> str | None:
    """What is wrong with the numbers in the header of a request, before memory is taken for its body; None if nothing."""
    if operation not in VALUE_BYTES:
        return f"the store knows no operation {operation}"
    if not 1 <= key_bytes <= MAX_KEY_BYTES:
        return f"a key of the store has 1 to {MAX_KEY_BYTES} bytes, but this one has {key_bytes}"
    if value_bytes not in VALUE_BYTES[Operation(operation)]:
        allowed = VALUE_BYTES[Operation(operation)]
        return f"a value here has {allowed.start} to {allowed.stop - 1} bytes, but this one has {value_bytes}"
    return None
