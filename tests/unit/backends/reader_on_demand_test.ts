import assert from "node:assert/strict";
import { createReaderOnDemand, type TrafficReader } from "../../../backends/contract/mod.ts";
import { createLogger } from "../../../platform/log.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

const NOTHING = { rows: [], atMs: 0 } as unknown as Awaited<ReturnType<TrafficReader["read"]>>;

Deno.test("traffic is read while the settings ask for it, anew each time, and a failure to start is no end", async () => {
  const calls: string[] = [], clock = createFakeClock();
  const failures: Error[] = [];
  let number = 0;
  const write = (line: string) => void calls.push(line.slice(25).trimEnd());
  const { follow, current } = createReaderOnDemand(() => {
    const name = `reader ${++number}`;
    return Promise.resolve({
      async start() {
        calls.push(`${name} starts`);
        await settled();
        calls.push(`${name} has started`);
        for (const failure of failures) throw failure;
      },
      read: () => Promise.resolve(NOTHING),
      forgetOwners: () => void calls.push(`${name} forgets`),
    });
  }, createLogger({ level: "warn", format: "text", clock, write }));
  const taken = () => calls.splice(0);

  await follow(undefined);
  await follow({});
  assert.deepEqual([current(), taken()], [undefined, []]);

  await follow({ countTraffic: true });
  const first = current();
  assert.deepEqual(taken(), ["reader 1 forgets", "reader 1 starts", "reader 1 has started"]);
  failures.push(new Error("no table"));
  await follow({ countTraffic: true });
  assert.equal(current(), first);
  assert.deepEqual(taken(), [
    ...["reader 1 forgets", "reader 1 starts", "reader 1 has started"],
    'WARN  cannot read the counters of traffic error="no table"',
  ]);

  await follow({});
  assert.equal(current(), undefined);
  await follow({ countTraffic: true });
  assert.notEqual(current(), first);
});
