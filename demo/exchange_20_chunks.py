"""Prints MSCCL XML in which two ranks first send each other 20 chunks and then receive them.

As a program this is right: each rank ends with what the other had. But each rank has one threadblock for both,
and no connection holds 20 chunks, so both stand still in their sends.
"""

CHUNKS = 20


def step(
    number: int,
    kind: str,
    source: str,
    source_index: int,
    destination: str,
    destination_index: int,
    count: int,
) -> str:
    return (
        f'      <step s="{number}" type="{kind}" srcbuf="{source}" srcoff="{source_index}" dstbuf="{destination}" '
        f'dstoff="{destination_index}" cnt="{count}" depid="-1" deps="-1" hasdep="0"/>'
    )


def rank_lines(rank: int) -> list[str]:
    other = 1 - rank
    sends = [step(k, "s", "i", other * CHUNKS + k, "o", rank * CHUNKS + k, 1) for k in range(CHUNKS)]
    receives = [
        step(CHUNKS + k, "r", "i", rank * CHUNKS + k, "o", other * CHUNKS + k, 1) for k in range(CHUNKS)
    ]
    return [
        f'  <gpu id="{rank}" i_chunks="{2 * CHUNKS}" o_chunks="{2 * CHUNKS}" s_chunks="0">',
        f'    <tb id="0" send="{other}" recv="{other}" chan="0">',
        *sends,
        *receives,
        "    </tb>",
        '    <tb id="1" send="-1" recv="-1" chan="0">',
        step(0, "cpy", "i", rank * CHUNKS, "o", rank * CHUNKS, CHUNKS),
        "    </tb>",
        "  </gpu>",
    ]


print(
    f'<algo name="exchange_20_chunks" proto="Simple" nchannels="1" nchunksperloop="{2 * CHUNKS}" ngpus="2" '
    'coll="alltoall" inplace="0" outofplace="1" minBytes="0" maxBytes="0">'
)
for rank in (0, 1):
    print("\n".join(rank_lines(rank)))
print("</algo>")
