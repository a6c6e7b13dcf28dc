/** Open connections with real packets: what the kernel counts, and how their numbers change the weights. */
import assert from "node:assert/strict";
import type { Backend } from "../../backends/contract/backend.ts";
import { describeMode, loadBackend } from "../../backends/registry.ts";
import type { Balance, Family, ServicePort } from "../../core/model/mod.ts";
import { createFamilyPlanner } from "../../core/planning/family_planner.ts";
import type { Weighing } from "../../core/planning/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import type { FamilyWorker, NodeFamily } from "../../features/contract.ts";
import { readConnections } from "../../features/connection_weights/calls.ts";
import { SHORTEST_PAUSE_MS, watchConnections } from "../../features/connection_weights/watch.ts";
import { joinHostPort } from "../../platform/address.ts";
import { type Clock, systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { fakeBalance } from "../fakes/balance.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { endpoint, endpointSlice, service } from "../fakes/cluster_objects.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { fakeTracking } from "../fakes/tracking.ts";
import { createBlackhole, type Network, removeBlackhole, run, runner } from "./blackhole.ts";

/** How far the clock of backends is ahead, in milliseconds. */
let aheadMs = 0;
const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs };

const COUNTED: Balance = { algorithm: "least-connections", clusterSlots: [8] };

/** Runs a test on a backend in nftables mode; `sync` brings service ports into effect. */
async function withBackend(
  family: Family,
  test: (
    backend: Backend,
    sync: (...ports: readonly ServicePort[]) => Promise<void>,
    network: Network,
  ) => Promise<void>,
): Promise<void> {
  const network = await createBlackhole(family);
  const backend = await loadBackend("nftables", { family, runner, clock, logger: silentLogger });
  try {
    await backend.setup();
    const settings = fakeSettings({ mode: "nftables", nodeIP: network.node, localhostNodePorts: false });
    let revision = 0;
    await test(backend, async (...set) => {
      const base = revision === 0 ? undefined : revision;
      const delta = { revision: ++revision, base, settings: base ? undefined : settings, set, deleted: [] };
      assert.deepEqual((await backend.sync(delta)).problems, []);
    }, network);
  } finally {
    await backend.cleanup();
    await removeBlackhole();
  }
}

/** Sluice's tables of a family in the kernel; earlier tests may have left those of iptables. */
async function tables(family: Family): Promise<readonly string[]> {
  const lines = (await run("nft", "list", "tables", family === "IPv4" ? "ip" : "ip6")).trim().split("\n");
  return lines.map((line) => line.split(" ").at(-1)!).filter((name) => name.startsWith("sluice"));
}

for (const family of ["IPv4", "IPv6"] as const) {
  Deno.test(`${family}: an answered connection is open until its first FIN or reset, and counted once`, () =>
    withBackend(family, async (backend, sync, { node, pod, service }) => {
      const listener = Deno.listen({ hostname: node, port: 0 });
      const live = joinHostPort(node, listener.addr.port),
        dead = joinHostPort(pod(1), 8080),
        refusing = joinHostPort(node, 1);
      const at = (index: number, name: string, endpoint: string) =>
        fakeServicePort(name, { clusterIP: service(index), clusterEndpoints: [endpoint], balance: COUNTED });
      const counts = async () => {
        const { endpoints } = await backend.openConnections!();
        return endpoints && Object.fromEntries(endpoints);
      };
      const connect = async () => {
        const connecting = Deno.connect({ hostname: service(1), port: 80 });
        return [await listener.accept(), await connecting] as const;
      };
      await sync(fakeServicePort("shop/web", { clusterIP: service(1), clusterEndpoints: [live] }));
      const [earlier, earlierClient] = await connect();
      assert.deepEqual(await tables(family), ["sluice"]);
      await sync(at(1, "shop/web", live), at(2, "shop/dead", dead), at(3, "shop/refusing", refusing));
      const nothing = { open: 0, opened: 0 };
      assert.deepEqual(await counts(), { [live]: nothing, [dead]: nothing, [refusing]: nothing });
      // The one from before is found by a listing.
      aheadMs += 10_000;
      assert.deepEqual(await counts(), { [live]: { open: 1, opened: 0 }, [dead]: nothing, [refusing]: nothing });
      assert.equal(await counts(), undefined);
      const first = await connect(), second = await connect(), third = await connect();
      await assert.rejects(Deno.connect({ hostname: service(3), port: 80 }));
      const unanswered = Deno.connect({ hostname: service(2), port: 80 }).catch(() => {});
      assert.deepEqual(await counts(), { [live]: { open: 4, opened: 3 }, [dead]: nothing, [refusing]: nothing });
      // Both ends close the first one; the server closes the second one, and its client's data is answered with a reset.
      first[1].close();
      assert.equal(await first[0].read(new Uint8Array(1)), null);
      first[0].close();
      second[0].close();
      assert.equal(await second[1].read(new Uint8Array(1)), null);
      await assert.rejects(async () => {
        for (;;) await second[1].write(new Uint8Array(1));
      });
      assert.deepEqual((await counts())?.[live], { open: 2, opened: 3 });
      // Another proxy takes the counts over.
      const next = await loadBackend("nftables", { family, runner, clock, logger: silentLogger });
      const settings = fakeSettings({ mode: "nftables", nodeIP: node, localhostNodePorts: false });
      await next.sync({ revision: 1, base: undefined, settings, set: [at(1, "shop/web", live)], deleted: [] });
      assert.deepEqual((await next.openConnections!()).endpoints, new Map([[live, { open: 1, opened: 3 }]]));
      await next.sync({ revision: 2, base: 1, settings: undefined, set: [], deleted: ["shop/web|tcp"] });
      assert.deepEqual((await next.openConnections!()).endpoints, new Map());
      assert.deepEqual(await tables(family), ["sluice"]);
      for (const connection of [earlier, earlierClient, second[1], ...third]) connection.close();
      listener.close();
      void unanswered;
    }));
}

/** The connections between two readings. */
const PER_READING = 50;
/** A slow endpoint keeps a connection open until so many later ones have been accepted. */
const KEPT_FOR = 60;
/** The last connections, of which shares are computed. */
const RECENT = 200;
const MOST_READINGS = 60;

Deno.test("a slow endpoint gets fewer new connections, and its share again when it is fast", () =>
  withBackend("IPv4", async (backend, sync, { node, service: address }) => {
    const listeners = Array.from({ length: 4 }, () => Deno.listen({ hostname: node, port: 0 }));
    const chosen: number[] = [];
    let kept: { readonly connection: Deno.Conn; readonly until: number }[] = [];
    let isSlow = false, accepted = Promise.withResolvers<void>();
    const serving = listeners.map(async (listener, i) => {
      for await (const connection of listener) {
        chosen.push(i);
        kept.push({ connection, until: chosen.length + (isSlow && i === 0 ? KEPT_FOR : 0) });
        const { over = [], open = [] } = Object.groupBy(
          kept,
          ({ until }) => !isSlow || until <= chosen.length ? "over" : "open",
        );
        for (const { connection } of over) connection.close();
        kept = open;
        accepted.resolve();
      }
    });
    const end = new AbortController();
    const weighing = await weigh(address(1), listeners.map(({ addr }) => addr.port), node, backend, sync, end.signal);
    const open = new Set<Promise<void>>();
    const connect = async () => {
      accepted = Promise.withResolvers();
      const connection = await Deno.connect({ hostname: address(1), port: 80 });
      const closing = connection.read(new Uint8Array(1)).then(() => connection.close());
      open.add(closing);
      await accepted.promise;
    };
    const share = () => chosen.slice(-RECENT).filter((i) => i === 0).length / RECENT;
    const until = async (isReached: (share: number) => boolean) => {
      for (let reading = 0; reading < MOST_READINGS; reading++) {
        for (let i = 0; i < PER_READING; i++) await connect();
        await weighing.read();
        if (chosen.length >= RECENT && isReached(share())) return;
      }
      assert.fail(`a share of ${share()}`);
    };
    await until((share) => share > 0.2);
    isSlow = true;
    await until((share) => share < 0.12);
    isSlow = false;
    await until((share) => share > 0.2);
    await Promise.all(open);
    end.abort();
    for (const listener of listeners) listener.close();
    await Promise.all(serving);
    assert.deepEqual(weighing.problems, []);
  }));

/** Serves a service with an endpoint at each of these ports, and weighs them at readings that the test asks for. */
async function weigh(
  clusterIP: string,
  ports: readonly number[],
  node: string,
  backend: Backend,
  sync: (...ports: readonly ServicePort[]) => Promise<void>,
  signal: AbortSignal,
) {
  const tracking = fakeTracking(), problems: string[] = [], time = createFakeClock();
  let weighing: Weighing | undefined, syncing = Promise.resolve(), scheduled = Promise.withResolvers<void>();
  const planner = createFamilyPlanner({
    ...{ family: "IPv4", nodeName: "here", tracking, balance: fakeBalance(describeMode("nftables")) },
    weighing: () => weighing,
    onProblems: () => {},
  });
  tracking.set(service("default/web", { clusterIPs: [clusterIP], own: { balance: "least-connections" } }));
  ports.forEach((port, i) =>
    tracking.set(
      endpointSlice(`default/web-${i}`, [endpoint(node)], { ports: [{ name: "http", protocol: "tcp", port }] }),
    )
  );
  await sync(...planner.plan(tracking.take()).set.values());
  const family: Pick<NodeFamily, "family" | "weigh" | "portsOf" | "planAgain" | "call"> = {
    family: "IPv4",
    weigh: (loads) => weighing = loads,
    portsOf: planner.portsOf,
    planAgain: (services) => void (syncing = sync(...planner.planSome(services).set.values())),
    call: async (call, request) => {
      if (call.name !== readConnections.name) return undefined;
      const answer = await readConnections.handle({ backend } as FamilyWorker, request as undefined);
      // A reading that takes long makes the next one later.
      return { ...answer, durationMs: 0 } as never;
    },
  };
  const reportProblems: ReportProblems = (_, list) => problems.push(...list.map(({ detail }) => detail ?? ""));
  const clock: Clock = {
    ...time,
    schedule(delayMs, callback) {
      scheduled.resolve();
      return time.schedule(delayMs, callback);
    },
  };
  watchConnections({ reportProblems, clock, signal }, family, new Set(["default/web"]));
  return {
    problems,
    /** Resolves when the connections have been read, and the new weights are in effect. */
    async read(): Promise<void> {
      scheduled = Promise.withResolvers();
      time.advance(SHORTEST_PAUSE_MS);
      await scheduled.promise;
      await syncing;
    },
  };
}
