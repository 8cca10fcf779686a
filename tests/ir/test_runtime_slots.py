"""How GPU runtimes pack chunks into messages: the published cases, and the laws that every rule keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.errors import LimitError
from hemiola.ir.plan import Protocol
from hemiola.ir.runtime_slots import GPU_RUNTIMES, MOST_CHUNKS, SLOT_RULES, SlotRule, slot_rule

RULES = st.sampled_from(sorted(SLOT_RULES.values(), key=repr))
CHUNK_BYTES = st.integers(1, 1 << 26)


def test_every_runtime_has_a_rule_for_every_protocol() -> None:
    assert set(SLOT_RULES) == {(runtime, protocol) for runtime in GPU_RUNTIMES for protocol in Protocol}
    for (_, protocol), rule in SLOT_RULES.items():
        assert rule.slots == protocol.slots, "plans are proven with the slots that they have there"


def test_payloads_are_those_of_the_buffers() -> None:
    """A buffer has eight steps; flags take half of LL, an eighth or a sixteenth of LL128, nothing of Simple."""
    assert slot_rule("nccl", Protocol.SIMPLE).payload_bytes == 4 * (4 << 20) // 8
    assert slot_rule("msccl", Protocol.LL).payload_bytes == (512 << 10) // 8 // 2
    assert slot_rule("rccl", Protocol.LL).payload_bytes == (256 << 10) // 8 // 2
    assert slot_rule("rccl", Protocol.LL128).payload_bytes == 458_752 // 8 * 7 // 8
    assert slot_rule("nccl", Protocol.LL128).payload_bytes == 4_915_200 // 8 * 15 // 16


@pytest.mark.parametrize(
    ("num_bytes", "messages"), [(32 << 20, 1), (64 << 20, 1), (128 << 20, 1), (256 << 20, 2), (1 << 30, 8)]
)
def test_steps_of_eight_chunks_of_512(num_bytes: int, messages: int) -> None:
    """2 MiB hold eight chunks up to 256 KiB each, which 512 of them have at 128 MiB."""
    assert slot_rule("rccl", Protocol.SIMPLE).messages_of_step(8, num_bytes / 512) == messages


@given(RULES, st.integers(1, MOST_CHUNKS), CHUNK_BYTES)
def test_a_step_travels_whole_and_no_message_is_too_long(rule: SlotRule, count: int, chunk: int) -> None:
    packed, messages = rule.chunks_per_message(chunk), rule.messages_of_step(count, chunk)
    assert (messages - 1) * packed < count <= messages * packed
    assert 1 <= packed <= rule.most_chunks
    assert packed == 1 or packed * chunk <= rule.payload_bytes
    assert packed == rule.most_chunks or (packed + 1) * chunk > rule.payload_bytes


@given(RULES, CHUNK_BYTES)
def test_iterations_move_the_chunk(rule: SlotRule, chunk: int) -> None:
    number = rule.num_iterations(chunk)
    assert (number - 1) * rule.payload_bytes < chunk <= number * rule.payload_bytes
    assert number == 1 or rule.chunks_per_message(chunk) == 1


@given(RULES, st.integers(2, MOST_CHUNKS))
def test_largest_chunk_is_the_last_with_its_packing(rule: SlotRule, packed: int) -> None:
    largest = rule.largest_chunk(packed)
    assert rule.chunks_per_message(largest) >= packed > rule.chunks_per_message(largest + 1)


def test_empty_chunks_pack_as_many_as_are_counted() -> None:
    assert slot_rule("rccl", Protocol.LL).messages_of_step(72, 0) == 2


def test_refusals_say_what_was_expected() -> None:
    with pytest.raises(LimitError, match="nccl, rccl, msccl"):
        slot_rule("gloo", Protocol.LL)
    with pytest.raises(LimitError, match="1 to 71"):
        slot_rule("rccl", Protocol.LL).largest_chunk(72)
    with pytest.raises(LimitError, match="at least 1"):
        SlotRule(slots=0, payload_bytes=1)
