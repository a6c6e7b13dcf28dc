import assert from "node:assert/strict";
import type { TrafficReading } from "../../../core/model/mod.ts";
import type { FamilyWorker } from "../../../features/contract.ts";
import { CALLS } from "../../../workers/calls.ts";

Deno.test("one reading of traffic at a time, since a second one would count the same traffic again", async () => {
  const readings: PromiseWithResolvers<TrafficReading>[] = [];
  const readTraffic = () => {
    const reading = Promise.withResolvers<TrafficReading>();
    readings.push(reading);
    return reading.promise;
  };
  const worker = { backend: { readTraffic } } as unknown as FamilyWorker;
  const read = () => CALLS.get("readTraffic")!.handle(worker, undefined);
  const reading = { durationMs: 1, ports: [], endpoints: [], counts: new Float64Array(), failures: [] };
  const first = read();
  assert.equal(await read(), undefined);
  readings[0]!.resolve(reading);
  assert.equal(await first, reading);
  const failing = read();
  readings[1]!.reject(new Error("nft failed"));
  await assert.rejects(Promise.resolve(failing), /nft failed/);
  const last = read();
  readings[2]!.resolve(reading);
  assert.equal(await last, reading);
});
