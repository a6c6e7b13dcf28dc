/** Connections, drops and traces from the real kernel. */
import assert from "node:assert/strict";
import { dropOf, type Flow, markTraced, pathLines, readFlows, readTraces, type Trace } from "../../cli/flows/mod.ts";
import { NETWORK } from "../../demo/lab.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { waitFor } from "../chaos/wait.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { nftSettings } from "../unit/backends/nftables/host.ts";
import { inLab } from "./in_lab.ts";
import { backendInNode, runnerInNode } from "./traffic_lab.ts";

const WEB = "10.96.0.10", EMPTY = "10.96.0.11";
const ENDPOINT = joinHostPort(NETWORK.pods["pod-1"].IPv4, NETWORK.podPort);

async function syncServices(): Promise<void> {
  const settings = nftSettings({ localTraffic: { by: "none" }, nodePortPrefixes: [] });
  const web = fakeServicePort("default/web:http", { clusterIP: WEB, clusterEndpoints: [ENDPOINT] });
  const none = { clusterEndpoints: [], internal: "reject", external: "reject" } as const;
  const empty = fakeServicePort("default/empty", { clusterIP: EMPTY, ...none });
  await backendInNode("IPv4").sync({ revision: 1, base: undefined, settings, set: [web, empty], deleted: [] });
}

const FOUND_WITHIN_MS = 30_000;

/** Repeats an action until a promise settles: the tools do not say when they listen. */
async function until<T>(found: Promise<T>, act: () => Promise<unknown>): Promise<T> {
  let isFound = false;
  found.finally(() => isFound = true).catch(() => {});
  await waitFor("it is found", FOUND_WITHIN_MS, async () => {
    await act();
    return isFound;
  });
  return await found;
}

Deno.test("a connection to a service is seen when it begins and when it closes", () =>
  inLab(async (lab) => {
    await syncServices();
    const closed = Promise.withResolvers<Flow>();
    const begun = new Map<string, Flow>();
    const ending = new AbortController();
    const find = (address: string) => address === WEB ? "default/web:http" : undefined;
    const watching = readFlows(runnerInNode(ending.signal), find, (flow) => {
      if (flow.event === "begin") begun.set(flow.client, flow);
      if (flow.event === "closed" && begun.has(flow.client)) closed.resolve(flow);
    });
    const flow = await until(closed.promise, () => lab.connect("pod-2", { protocol: "tcp", address: WEB, port: 80 }));
    ending.abort();
    await watching.catch(() => {});
    assert.deepEqual([flow.frontend, flow.endpoint, flow.protocol], [`${WEB}:80`, ENDPOINT, "tcp"]);
    assert.ok(flow.client.startsWith(`${NETWORK.pods["pod-2"].IPv4}:`), flow.client);
    assert.ok(flow.durationMs! >= 0);
  }));

Deno.test("traces of real connections explain each rule, and drops; their table vanishes with nft", () =>
  inLab(async (lab) => {
    await syncServices();
    const delivered = Promise.withResolvers<Trace>(), dropped = Promise.withResolvers<Trace>();
    const ending = new AbortController();
    const runner = runnerInNode(ending.signal);
    const release = await markTraced([{
      family: "IPv4",
      destinations: [`${WEB} . tcp . 80`, `${EMPTY} . tcp . 80`],
      matches: ["ct state new ip daddr . meta l4proto . th dport @traced"],
      priority: -150,
    }], runner);
    const watching = readTraces(
      runner,
      systemClock,
      (trace) => (trace.isDropped ? dropped : delivered).resolve(trace),
    );
    const connect = (address: string) => () => lab.connect("pod-2", { protocol: "tcp", address, port: 80 });
    const lines = pathLines(await until(delivered.promise, connect(WEB)), "default/web:http").join("\n");
    assert.match(lines, /ip sluice services +is for default\/web:http: it has one endpoint/);
    assert.ok(lines.includes(`sends it to the endpoint ${ENDPOINT}`), lines);
    assert.ok(lines.includes(`it left at pod-1 for ${ENDPOINT}`), lines);
    const drop = dropOf(await until(dropped.promise, connect(EMPTY)), 0, "default/empty");
    assert.deepEqual([drop.owner, drop.reason], ["service", "rejected: the service has no usable endpoint"]);
    assert.match(await lab.run("node", ["nft", "list", "tables"]), /sluice-trace/);
    release();
    ending.abort();
    await watching.catch(() => {});
    const isGone = async () => !(await lab.run("node", ["nft", "list", "tables"])).includes("sluice-trace");
    await waitFor("the table of traces is gone", FOUND_WITHIN_MS, isGone);
  }));
