/** More connections from outside than file descriptors: changes stay fast, and health probes are answered. */
import assert from "node:assert/strict";
import { sleep, systemClock } from "../../platform/clock.ts";
import type { ApiObject } from "../fakes/api_server.ts";
import { cluster, service, slice } from "./cluster.ts";
import { API_LINK, type ChaosLab, withLab } from "./lab.ts";
import { processUsage } from "./process.ts";
import { type Counts, MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { TIMEOUT_FACTOR, waitFor } from "./wait.ts";

const OPEN_FILES = 1024;
const IDLE = 4000;
const HEALTHZ_PORT = 10256, FIRST_CHECK_PORT = 31000;
const CHANGES = 3;
const CHANGE_LIMIT_MS = 2000, PROBE_LIMIT_MS = 60_000;
const LOAD_BALANCERS = 1100;
/** By default nftables mode serves node ports on the primary address only, and these connections use another one. */
const ADDRESSES = [`${API_LINK.node}/32`, "::1/128"];

/** Both modes. */
export const outsideConnections: readonly Scenario[] = MODES.flatMap((mode) => [
  {
    name: `outside connections: ${IDLE} idle ones that reconnect, ${OPEN_FILES} open files, ${mode}`,
    run: () =>
      withLab(async (lab) => {
        lab.api.apply(...cluster(100), ...loadBalancer(0));
        const marker = createSyncMarker(lab);
        const sluice = await startSluice(lab, {
          mode,
          nodePortAddresses: ADDRESSES,
          openFiles: [OPEN_FILES, OPEN_FILES],
        });
        const end = new AbortController();
        let flooding: Promise<unknown> | undefined;
        try {
          await marker.settle();
          const before = processUsage(sluice.pid).openFiles;
          flooding = flood([HEALTHZ_PORT, FIRST_CHECK_PORT], end.signal);
          const changes: number[] = [], probes: number[] = [];
          let openFiles = 0;
          for (let i = 0; i < CHANGES; i++) {
            changes.push(await marker.move(60_000));
            openFiles = Math.max(openFiles, processUsage(sluice.pid).openFiles);
          }
          for (const port of [HEALTHZ_PORT, FIRST_CHECK_PORT]) probes.push(await probe(port));
          const counts: Counts = {
            "changes in effect after ms": changes.map(Math.round).join(", "),
            "probes answered after ms": probes.map(Math.round).join(", "),
            "descriptors before, highest": `${before}, ${openFiles}`,
          };
          const seen = JSON.stringify(counts);
          assert.ok(Math.max(...changes) < CHANGE_LIMIT_MS * TIMEOUT_FACTOR, `a change was slow: ${seen}`);
          assert.ok(openFiles < OPEN_FILES / 2, `too many descriptors: ${seen}`);
          assert.doesNotMatch(sluice.log(), /Too many open files|os error 24/);
          return counts;
        } finally {
          end.abort();
          // Connections still in the backlog are refused once Sluice has stopped.
          await sluice.end("SIGTERM");
          await flooding;
        }
      }),
  },
  {
    name: `outside connections: ${LOAD_BALANCERS} health check node ports, ${OPEN_FILES} open files, ${mode}`,
    inGate: mode === "nftables",
    run: () =>
      withLab(async (lab) => {
        lab.api.apply(...cluster(10));
        for (let i = 0; i < LOAD_BALANCERS; i++) lab.api.apply(...loadBalancer(i));
        const all = await served(lab, mode, OPEN_FILES, 8192);
        assert.equal(all.answering, LOAD_BALANCERS, "the soft limit is not raised");
        const some = await served(lab, mode, OPEN_FILES, OPEN_FILES);
        assert.ok(some.answering > OPEN_FILES / 3 / ADDRESSES.length, `only ${some.answering} answer`);
        assert.match(some.log, /limit of open files leaves room for/);
        return {
          "answering with a hard limit of 8,192": all.answering,
          "answering with a hard limit of 1,024": some.answering,
          "first rules in effect after ms, for both limits": `${Math.round(all.startMs)}, ${Math.round(some.startMs)}`,
        };
      }),
  },
]);

/** Runs Sluice with these limits until it is in sync and counts the health checks that respond with 200. */
async function served(lab: ChaosLab, mode: (typeof MODES)[number], soft: number, hard: number) {
  const marker = createSyncMarker(lab);
  const sluice = await startSluice(lab, { mode, nodePortAddresses: ADDRESSES, openFiles: [soft, hard] });
  try {
    const startMs = await marker.move(60_000);
    await marker.settle();
    let answering = 0;
    for (let i = 0; i < LOAD_BALANCERS; i++) {
      const answer = await fetch(`http://${API_LINK.node}:${FIRST_CHECK_PORT + i}/`).catch(() => undefined);
      await answer?.body?.cancel();
      if (answer?.status === 200) answering++;
    }
    assert.doesNotMatch(sluice.log(), /Too many open files|os error 24/);
    return { startMs, answering, log: sluice.log() };
  } finally {
    await sluice.end("SIGTERM");
  }
}

/** A service with a health check node port and an endpoint on this node. */
function loadBalancer(index: number): ApiObject[] {
  const name = `lb-${index}`;
  const spec = {
    type: "LoadBalancer",
    externalTrafficPolicy: "Local",
    healthCheckNodePort: FIRST_CHECK_PORT + index,
    ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080, nodePort: 32100 + index % 600 }],
  };
  if (index >= 600) delete (spec.ports[0] as { nodePort?: number }).nodePort;
  const address = `10.97.${index >> 8}.${index & 255}`;
  return [service(name, [address], spec), slice(name, "IPv4", ["pod-1"])];
}

/** Keeps idle connections open and reopens each as soon as it is closed, until the signal. */
async function flood(ports: readonly number[], signal: AbortSignal): Promise<void> {
  const hold = async (port: number) => {
    while (!signal.aborted) {
      try {
        using connection = await Deno.connect({ hostname: API_LINK.node, port });
        const close = () => connection.close();
        signal.addEventListener("abort", close, { once: true });
        await connection.read(new Uint8Array(1)).catch(() => null);
        signal.removeEventListener("abort", close);
      } catch {
        await sleep(systemClock, 100, signal).catch(() => {});
      }
    }
  };
  await Promise.all(Array.from({ length: IDLE }, (_, i) => hold(ports[i % ports.length]!)));
}

/** Requests /healthz as a load balancer does, with retries, and resolves with the milliseconds until 200. */
function probe(port: number): Promise<number> {
  return waitFor(`an answer from port ${port}`, PROBE_LIMIT_MS, async () => {
    try {
      const answer = await fetch(`http://${API_LINK.node}:${port}/healthz`, {
        signal: AbortSignal.timeout(20_000 * TIMEOUT_FACTOR),
      });
      await answer.body?.cancel();
      return answer.status === 200;
    } catch {
      return false;
    }
  });
}
