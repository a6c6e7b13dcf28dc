import assert from "node:assert/strict";
import type { TcpProbeResult } from "../../../platform/mod.ts";
import { createEndpointProbe } from "../../../proxy/endpoint_probe.ts";
import { createFakeClock, promisesSettled } from "../../fakes/clock.ts";

const SETTINGS = { probes: 5, probeTimeoutMs: 300, livenessPort: 10250 };

/** Probes 10.1.0.1:80 on a network where only `answers` is answered, after `afterMs`. */
async function probing(kind: "single" | "thorough", answers: (port: number, attempt: number) => boolean, afterMs = 1) {
  const clock = createFakeClock(undefined, promisesSettled);
  const tried: string[] = [];
  let result: boolean | undefined;
  const tryTcp = ({ port }: { readonly port: number }, timeoutMs: number) => {
    const isAnswered = answers(port, tried.length);
    tried.push(`${port} at ${clock.monotonic()}`);
    return new Promise<TcpProbeResult>((resolve) =>
      clock.schedule(isAnswered ? afterMs : timeoutMs, () => resolve(isAnswered ? "answered" : "silent"))
    );
  };
  createEndpointProbe(SETTINGS, tryTcp, clock)("10.1.0.1:80", kind).then((answered) => result = answered);
  await clock.advanceSettled(299);
  const beforeTimeout = result;
  await clock.advanceSettled(1);
  return { result, beforeTimeout, tried };
}

Deno.test("a thorough probe asks both ports again and again until its time is over", async () => {
  const { result, beforeTimeout, tried } = await probing("thorough", () => false);
  assert.equal(beforeTimeout, undefined);
  assert.equal(result, false);
  const later = [30, 60, 90, 120].flatMap((ms) => [`10250 at ${ms}`, `80 at ${ms}`]);
  assert.deepEqual(tried, ["10250 at 0", ...later]);
});

Deno.test("a thorough probe ends with the first answer, and leaves a busy process alone", async () => {
  const { result, tried } = await probing("thorough", (port) => port === 10250);
  assert.equal(result, true);
  assert.deepEqual(tried, ["10250 at 0"]);
});

Deno.test("the endpoint's own port suffices if a network policy drops the liveness port", async () => {
  assert.equal((await probing("thorough", (port) => port === 80)).beforeTimeout, true);
  assert.equal((await probing("single", (port) => port === 80)).beforeTimeout, true);
});

Deno.test("one answer of many lost ones is enough", async () => {
  assert.equal((await probing("thorough", (_port, attempt) => attempt === 8, 100)).beforeTimeout, true);
});
