import assert from "node:assert/strict";
import { createReaderOnDemand, type TrafficReader } from "../../../backends/contract/mod.ts";
import { createLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";

const NOTHING = { rows: [], atMs: 0 } as unknown as Awaited<ReturnType<TrafficReader["read"]>>;

Deno.test("traffic is read while the settings ask for it, anew each time, and a failure to start is no end", async () => {
  const calls: string[] = [], clock = createFakeClock();
  let number = 0, failure: Error | undefined;
  const write = (line: string) => void calls.push(line.slice(25).trimEnd());
  const { follow, current } = createReaderOnDemand(() => {
    const name = `reader ${++number}`;
    return Promise.resolve({
      start() {
        calls.push(`${name} starts`);
        return failure === undefined ? Promise.resolve() : Promise.reject(failure);
      },
      read: () => Promise.resolve(NOTHING),
      forgetOwners: () => void calls.push(`${name} forgets`),
    });
  }, createLogger({ level: "warn", format: "text", clock, write }));
  const taken = () => calls.splice(0);

  await follow(undefined);
  await follow({ countTraffic: false });
  assert.deepEqual([current(), taken()], [undefined, []]);

  await follow({ countTraffic: true });
  const first = current();
  assert.deepEqual(taken(), ["reader 1 forgets", "reader 1 starts"]);
  failure = new Error("no table");
  await follow({ countTraffic: true });
  assert.equal(current(), first);
  assert.deepEqual(taken(), [
    ...["reader 1 forgets", "reader 1 starts"],
    'WARN  cannot read the counters of traffic error="no table"',
  ]);

  await follow({ countTraffic: false });
  assert.equal(current(), undefined);
  await follow({ countTraffic: true });
  assert.notEqual(current(), first);
});
