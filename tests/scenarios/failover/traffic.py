"""
The endpoints and the client of tests/scenarios/failover/run: `serve`, or `connect RATE FAULT LOG`, with the file of the time of
the fault, and Sluice's log.
"""
import asyncio
import datetime
import json
import os
import sys
import time

HUNG_SECONDS = 0.9
LOAD_SECONDS = 8
LONGEST_SECONDS = 20


async def serve():
    async def close(_reader, writer):
        writer.close()

    server = await asyncio.start_server(close, "0.0.0.0", 8080, backlog=4096)
    await server.serve_forever()


def left_out_after(log, at):
    """The seconds after the fault at which each endpoint was left out."""
    lines = [json.loads(line) for line in open(log) if '"endpoint-unreachable"' in line and '"warn"' in line]
    times = [datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp() for line in lines]
    return [time - at for time in times if time > at]


async def connect(rate, fault, log):
    attempts, late = [], 0

    async def attempt():
        started = time.time()
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection("10.96.0.10", 80), LONGEST_SECONDS)
            writer.close()
            failed = False
        except OSError:
            failed = True
        attempts.append((started, time.time(), failed))

    started, tasks = time.time(), []
    while (elapsed := time.time() - started) < LOAD_SECONDS:
        tasks.extend(asyncio.create_task(attempt()) for _ in range(int(elapsed * rate) - len(tasks)))
        await asyncio.sleep(0.002)
        late = max(late, time.time() - started - elapsed)
    await asyncio.gather(*tasks)
    at = float(open(fault).read()) if os.path.exists(fault) else started
    hung = [one for one in attempts if one[1] - one[0] > HUNG_SECONDS]
    longest = max(end - start for start, end, _ in attempts)
    print(f"{len(attempts)} connections, {sum(failed for *_, failed in attempts)} failed, {len(hung)} hung for more than "
          f"{HUNG_SECONDS} s, the longest {longest:.2f} s")
    left_out = left_out_after(log, at)
    if left_out:
        print(f"  {len(left_out)} endpoints left out after {min(left_out):.2f} to {max(left_out):.2f} s; the client itself was "
              f"late by up to {late:.2f} s")
    if hung:
        print(f"  the last hanging one began {max(start for start, *_ in hung) - at:.2f} s after the fault, and the last "
              f"to connect did so {max(end for _, end, _ in hung) - at:.2f} s after it")


if sys.argv[1] == "serve":
    asyncio.run(serve())
else:
    asyncio.run(connect(float(sys.argv[2]), *sys.argv[3:]))
