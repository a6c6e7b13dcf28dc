/** Churn of pods whose addresses are used again at once: connections to pods that are gone are reset, and no others. */
import assert from "node:assert/strict";
import type { ProxyMode } from "../../core/model/mod.ts";
import { NETWORK } from "../../demo/lab.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import type { ApiObject } from "../fakes/api_server.ts";
import { node, service } from "./cluster.ts";
import { API_LINK, type ChaosLab, withLab } from "./lab.ts";
import { startTrafficProgram } from "./probes.ts";
import { type Counts, type Extent, MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { TIMEOUT_FACTOR, waitFor } from "./wait.ts";

const SERVICES = 1000;
const CHANGE_EVERY_MS = 100;
/** One in this many services has an open connection. */
const HELD = 10;
const ROUND_TRIP_EVERY_MS = 100;
/** The time after a change of a service in which a connection to it may reach the old or the new pod. */
const UNCERTAIN_MS = 1500 * TIMEOUT_FACTOR;
/** The time after which a connection to a pod that is gone counts as not reset. */
const RESET_WITHIN_MS = 5000;
const SHORT_MINUTES = 0.25;
const PODS = "10.244.64.0/18", POD_PORT = 9000;

/** Both modes, a quarter of a minute each; with `--long` half of CHAOS_MINUTES, an hour by default. */
export const goneEndpoints: readonly Scenario[] = MODES.map((mode) => ({
  name: `gone endpoints: 10 changes a second at ${SERVICES} services, ${mode}`,
  inGate: mode === "nftables",
  run: ({ long, random }: Extent) =>
    withLab((lab) => churn(lab, mode, long ? Number(Deno.env.get("CHAOS_MINUTES") ?? 60) / 2 : SHORT_MINUTES, random)),
}));

/** A pod, until its address is another pod's. */
interface Pod {
  readonly address: string;
  goneMs?: number;
  /** Whether its connections may be reset and need not be: its address was another pod's at once, or this machine was slow. */
  isUncertain?: true;
}

/** A service with one pod. */
interface Target {
  readonly name: string;
  readonly clusterIP: string;
  pod: Pod;
  /** The kind of its last change. */
  change: string;
  /** Whether it is in a change of several steps. */
  isChanging: boolean;
  /** The time of its last change. */
  changedMs: number;
  /** Distinguishes the names of its slices. */
  slices: number;
}

const address = (number: number) => `10.244.${64 + (number >> 8)}.${number & 255}`;

function sliceOf(target: Target, pods: readonly (readonly [Pod, Readonly<Record<string, boolean>>?])[]): ApiObject {
  return {
    kind: "EndpointSlice",
    metadata: {
      name: `${target.name}-${target.slices}`,
      namespace: "default",
      labels: { "kubernetes.io/service-name": target.name },
    },
    addressType: "IPv4",
    endpoints: pods.map(([{ address }, conditions]) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false, ...conditions },
      nodeName: NETWORK.nodeName,
    })),
    ports: [{ name: "http", protocol: "TCP", port: POD_PORT }],
  };
}

async function churn(lab: ChaosLab, mode: ProxyMode, minutes: number, random: () => number): Promise<Counts> {
  const { api } = lab;
  const targets = Array.from({ length: SERVICES }, (_, index): Target => ({
    ...{ name: `svc-${index}`, clusterIP: `10.96.${1 + (index >> 8)}.${index & 255}` },
    ...{ pod: { address: address(index) }, change: "none", isChanging: false, changedMs: 0, slices: 0 },
  }));
  const serviceOf = ({ name, clusterIP }: Target) =>
    service(name, [clusterIP], { ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: POD_PORT }] });
  api.apply(node(), ...targets.flatMap((target) => [serviceOf(target), sliceOf(target, [[target.pod]])]));
  await lab.run("pod-1", ["ip", "route", "add", "local", PODS, "dev", "lo"]);
  await lab.run("node", ["ip", "route", "add", PODS, "nexthop", "via", NETWORK.pods["pod-1"].IPv4]);
  await new Deno.Command("ip", { args: ["route", "add", "10.96.0.0/16", "via", API_LINK.node] }).output();
  startTrafficProgram(lab, "pod-1", ["echo", "0.0.0.0", String(POD_PORT)]);
  const sluice = await startSluice(lab, { mode });

  const now = () => systemClock.monotonic();
  const kinds: Record<string, number> = {};
  const resetAfterMs: number[] = [], wrong: string[] = [];
  /** The pods of open connections. */
  const held = new Set<Pod>();
  let roundTrips = 0, opened = 0, isOver = false;

  /** Keeps a connection to a service open, and opens another one once its pod is gone. */
  const hold = async (target: Target) => {
    while (!isOver) {
      if (target.isChanging || now() - target.changedMs < UNCERTAIN_MS) {
        await sleep(systemClock, ROUND_TRIP_EVERY_MS);
        continue;
      }
      const { pod } = target;
      const connection = await Deno.connect({ hostname: target.clusterIP, port: 80 }).catch(() => undefined);
      if (!connection) {
        wrong.push(`no connection to ${target.name}`);
        continue;
      }
      opened++;
      held.add(pod);
      const byte = new Uint8Array(1);
      try {
        while (!isOver) {
          await connection.write(byte);
          if (await connection.read(byte) !== 1) throw new Error("closed");
          roundTrips++;
          if (pod.goneMs !== undefined && now() - pod.goneMs > RESET_WITHIN_MS * TIMEOUT_FACTOR) {
            if (pod.isUncertain) break;
            wrong.push(`a connection to ${target.name} was not reset`);
            break;
          }
          await sleep(systemClock, ROUND_TRIP_EVERY_MS);
        }
      } catch (error) {
        if (pod.isUncertain) continue;
        if (pod.goneMs !== undefined && error instanceof Deno.errors.ConnectionReset) {
          resetAfterMs.push(now() - pod.goneMs);
        } else wrong.push(`${target.name} at ${pod.address}: ${error}, last change: ${target.change}`);
      } finally {
        connection.close();
        held.delete(pod);
      }
    }
  };

  const spare = Array.from({ length: SERVICES }, (_, index) => address(SERVICES + index));
  const show = (target: Target, ...pods: Parameters<typeof sliceOf>[1]) => {
    target.changedMs = now();
    api.apply(sliceOf(target, pods));
  };
  const replace = (target: Target, next: string) => {
    const old = target.pod;
    target.pod = { address: next };
    show(target, [old, { ready: false, terminating: true }], [target.pod]);
    show(target, [target.pod]);
    old.goneMs = now();
    return old.address;
  };
  const free = () => {
    for (;;) {
      const target = targets[Math.floor(random() * SERVICES)]!;
      if (!target.isChanging && now() - target.changedMs > 2 * UNCERTAIN_MS) return target;
    }
  };
  const later = async (target: Target, delayMs: number, step: () => void) => {
    target.isChanging = true;
    await sleep(systemClock, delayMs);
    step();
    target.changedMs = now();
    target.isChanging = false;
  };
  const count = (target: Target, kind: string) => {
    target.change = kind;
    kinds[kind] = (kinds[kind] ?? 0) + 1;
  };
  const change = () => {
    const target = free(), drawn = random();
    if (drawn < 0.35) {
      count(target, "replaced");
      spare.push(replace(target, spare.shift()!));
    } else if (drawn < 0.65) {
      count(target, "with the address of another one");
      const other = free();
      if (other === target) return;
      target.pod.isUncertain = true;
      spare.push(replace(other, replace(target, spare.shift()!)));
    } else if (drawn < 0.75) {
      count(target, "drained");
      const old = target.pod;
      target.pod = { address: spare.shift()! };
      show(target, [old, { ready: false, terminating: true }], [target.pod]);
      void later(target, 3000, () => {
        show(target, [target.pod]);
        old.goneMs = now();
        spare.push(old.address);
      });
    } else if (drawn < 0.85) {
      count(target, "moved to another slice");
      const old = target.pod, movedMs = now();
      api.remove(sliceOf(target, []));
      target.slices++;
      void later(target, 200, () => {
        show(target, [target.pod]);
        if (now() - movedMs > 400) old.isUncertain = true;
      });
    } else if (drawn < 0.9) {
      count(target, "left by its selector for a while");
      const old = target.pod, standIn = spare.shift()!;
      target.pod = { address: standIn };
      show(target, [target.pod]);
      void later(target, 3000, () => {
        spare.push(standIn);
        target.pod = old;
        show(target, [old]);
      });
    } else if (drawn < 0.95) {
      count(target, "service created again");
      api.remove(serviceOf(target));
      api.remove(sliceOf(target, []));
      void later(target, 1500, () => {
        api.apply(serviceOf(target));
        show(target, [target.pod]);
      });
    } else {
      count(target, "not ready for a while");
      show(target, [target.pod, { ready: false, serving: false }]);
      void later(target, 1500, () => show(target, [target.pod]));
    }
  };

  const last = targets.at(-1)!;
  await waitFor(
    "the last service answers",
    60_000,
    () =>
      Deno.connect({ hostname: last.clusterIP, port: 80 }).then(
        (connection) => (connection.close(), true),
        () => false,
      ),
  );
  const holding = targets.filter((_, index) => index % HELD === 0).map(hold);
  const startMs = now() + 2 * UNCERTAIN_MS;
  for (let dueMs = startMs; dueMs < startMs + minutes * 60_000; dueMs += CHANGE_EVERY_MS) {
    await sleep(systemClock, Math.max(0, dueMs - now()));
    change();
    if (dueMs % 10_000 < CHANGE_EVERY_MS) api.forgetEvents();
  }
  const areReset = () => [...held].every(({ goneMs, isUncertain }) => goneMs === undefined || isUncertain);
  await waitFor("connections to pods that are gone are reset", RESET_WITHIN_MS, areReset).catch(() => {});
  isOver = true;
  await Promise.all(holding);
  await sluice.end("SIGTERM");
  resetAfterMs.sort((a, b) => a - b);
  const at = (share: number) => Math.round(resetAfterMs[Math.floor(share * (resetAfterMs.length - 1))] ?? NaN);
  const counts: Counts = {
    ...{ minutes, ...kinds },
    "connections opened, round trips": `${opened}, ${roundTrips}`,
    "reset after their pod was gone": resetAfterMs.length,
    "reset after ms: median, 99 %, slowest": `${at(0.5)}, ${at(0.99)}, ${at(1)}`,
    "live ones reset, or others not": wrong.length,
  };
  assert.deepEqual(wrong.slice(0, 10), [], JSON.stringify(counts));
  return counts;
}
