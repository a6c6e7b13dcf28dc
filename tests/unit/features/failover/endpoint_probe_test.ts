import assert from "node:assert/strict";
import type { ProbeResult } from "../../../../features/failover/detector.ts";
import { createEndpointProbe, type TcpProbeResult } from "../../../../features/failover/endpoint_probe.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";

const SETTINGS = { probes: 5, probeTimeoutMs: 300, livenessPort: 10250 };

/** Probes 10.1.0.1:80 on a network that answers as `resultOf` says, after `afterMs`. */
async function probing(
  kind: "single" | "thorough",
  resultOf: (port: number, attempt: number) => TcpProbeResult,
  afterMs = 1,
) {
  const clock = createFakeClock(undefined, promisesSettled);
  const tried: string[] = [];
  let result: ProbeResult | undefined;
  const tryTcp = ({ port }: { readonly port: number }, timeoutMs: number) => {
    const ofThis = resultOf(port, tried.length);
    tried.push(`${port} at ${clock.monotonic()}`);
    return new Promise<TcpProbeResult>((resolve) =>
      clock.schedule(ofThis === "silent" ? timeoutMs : afterMs, () => resolve(ofThis))
    );
  };
  createEndpointProbe(SETTINGS, tryTcp, clock)("10.1.0.1:80", kind).then((ended) => result = ended);
  await clock.advanceSettled(299);
  const beforeTimeout = result;
  await clock.advanceSettled(1);
  return { result, beforeTimeout, tried };
}

const only = (port: number) => (tried: number): TcpProbeResult => tried === port ? "answered" : "silent";

Deno.test("a thorough probe asks both ports again and again until its time is over", async () => {
  const { result, beforeTimeout, tried } = await probing("thorough", () => "silent");
  assert.equal(beforeTimeout, undefined);
  assert.equal(result, "silent");
  const later = [30, 60, 90, 120].flatMap((ms) => [`10250 at ${ms}`, `80 at ${ms}`]);
  assert.deepEqual(tried, ["10250 at 0", ...later]);
});

for (const kind of ["single", "thorough"] as const) {
  Deno.test(`a ${kind} probe ends with the first answer, and leaves the process alone if the liveness port answers`, async () => {
    const { beforeTimeout, tried } = await probing(kind, only(10250));
    assert.equal(beforeTimeout, "answered");
    assert.deepEqual(tried, ["10250 at 0"]);
  });

  Deno.test(`the endpoint's own port suffices for a ${kind} probe if a network policy drops the liveness port`, async () => {
    assert.equal((await probing(kind, only(80))).beforeTimeout, "answered");
  });

  Deno.test(`a ${kind} probe that this host cannot make is neither an answer nor silence`, async () => {
    assert.equal((await probing(kind, () => ({ failed: "Too many open files" }))).result, "unknown");
  });
}

Deno.test("one answer of many lost ones is enough", async () => {
  const last = (_port: number, attempt: number): TcpProbeResult => attempt === 8 ? "answered" : "silent";
  assert.equal((await probing("thorough", last, 100)).beforeTimeout, "answered");
});
