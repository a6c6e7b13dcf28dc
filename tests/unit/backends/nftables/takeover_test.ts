import assert from "node:assert/strict";
import type { Backend, BackendOptions, SyncResult } from "../../../../backends/contract/backend.ts";
import { NO_LAYOUT } from "../../../../backends/xtables/chains.ts";
import { loadBackend } from "../../../../backends/registry.ts";
import { ToolMissingError } from "../../../../backends/tools/runner.ts";
import type { Problem, ReportProblems } from "../../../../core/problems/mod.ts";
import { type ModeCode, withTakeover } from "../../../../backends/takeover.ts";
import type { PacketCounts } from "../../../../core/model/mod.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { nftSettings } from "./host.ts";

const clock = createFakeClock();
const host = createFakeNftHost();
const logger = createLogger({ level: "error", format: "text", clock, write: () => {} });
const options: BackendOptions = { family: "IPv4", runner: host.runner, clock, logger };
const WHOLE = {
  revision: 1,
  base: undefined,
  settings: nftSettings(),
  set: [fakeServicePort("default/web")],
  deleted: [],
};
const NOTHING: SyncResult = { problems: [], counts: {} };
const COUNTS: PacketCounts = { ctStateInvalidDropped: 1, localhostNodePortsAccepted: 2 };

/** Modes that record their calls and fail on demand. */
function modes() {
  const done: string[] = [];
  const fails = new Map<string, Error>();
  const step = (what: string) => {
    done.push(what);
    const error = fails.get(what);
    return error ? Promise.reject(error) : Promise.resolve();
  };
  const backend: Backend = {
    setup: () => step("setup"),
    sync: () => step("sync").then(() => NOTHING),
    resync: () => step("resync").then(() => NOTHING),
    cleanup: () => step("cleanup"),
    packetCounts: () => Promise.resolve(COUNTS),
  };
  const mode = (name: string): ModeCode => ({
    create: () => backend,
    examine: () => Promise.resolve(),
    layout: NO_LAYOUT,
    removeTraces: () => step(`traces of ${name}`),
    removeLeftovers: () => step(`leftovers of ${name}`),
  });
  const reported: Problem[] = [];
  const onProblems: ReportProblems = (_scope, problems) => void reported.splice(0, reported.length, ...problems);
  const others = [() => Promise.resolve(mode("other"))];
  return { done, fails, reported, taking: withTakeover(mode("chosen"), others, { ...options, onProblems }) };
}

Deno.test("leftovers of other modes are removed once the new rules are in effect", async () => {
  const { done, fails, taking } = modes();
  fails.set("sync", new Error("not yet"));
  await assert.rejects(taking.sync(WHOLE));
  fails.clear();
  await taking.sync(WHOLE);
  await taking.sync(WHOLE);
  assert.deepEqual(done, ["sync", "sync", "traces of other", "leftovers of chosen", "sync"]);
});

Deno.test("a failed removal is repeated by the next comparison and delays nothing", async () => {
  const { done, fails, reported, taking } = modes();
  fails.set("traces of other", new Error("busy"));
  assert.deepEqual(await taking.sync(WHOLE), { problems: [], counts: { cleanup_failures: 1 } });
  assert.deepEqual(reported.map(({ code, subject, detail }) => [code, subject, detail]), [
    ["leftovers-kept", "IPv4", "busy"],
  ]);
  fails.clear();
  assert.deepEqual(await taking.resync(), { problems: [], counts: { cleanup_failures: 0 } });
  assert.deepEqual(reported, []);
  await taking.resync();
  assert.deepEqual(done.slice(3), ["resync", "traces of other", "resync"]);
  assert.deepEqual(await taking.packetCounts!(), COUNTS);
});

Deno.test("cleanup continues after failures and ignores tools that are not installed", async () => {
  const { done, fails, taking } = modes();
  fails.set("cleanup", new ToolMissingError("nft"));
  await taking.cleanup();
  assert.deepEqual(done, ["cleanup", "traces of other"]);
  fails.set("cleanup", new Error("first")).set("traces of other", new Error("second"));
  await assert.rejects(taking.cleanup(), /first; second/);
});

Deno.test("nftables mode removes the table of kube-proxy's", async () => {
  host.tables.set("ip kube-proxy", { sets: new Map(), chains: new Map(), counters: new Map() });
  await (await loadBackend("nftables", options)).sync(WHOLE);
  assert.deepEqual([...host.tables.keys()], ["ip sluice"]);
});

Deno.test("leftovers stay while only the head of the state is known", async () => {
  const { done, taking } = modes();
  await taking.sync({ ...WHOLE, part: "head" });
  assert.deepEqual(done, ["sync"]);
  await taking.sync({ ...WHOLE, revision: 2, base: 1, settings: undefined, set: [], part: "rest" });
  assert.deepEqual(done, ["sync", "sync", "traces of other", "leftovers of chosen"]);
});

Deno.test("a mode drains before the traces of others are removed, whose removal keeps its chains until it has", async () => {
  const done: string[] = [];
  const delays: (number | Error | undefined)[] = [2_000, new Error("busy"), 1_000, undefined];
  const layout = { ...NO_LAYOUT, baseChains: { mangle: [], filter: ["DRAIN"], nat: [] } };
  const clock = createFakeClock();
  const mode = (name: string): ModeCode => ({
    create: () => ({
      setup: () => Promise.resolve(void done.push("setup")),
      sync: () => Promise.resolve(NOTHING),
      resync: () => Promise.resolve(NOTHING),
      cleanup: () => Promise.resolve(),
    }),
    examine: () => Promise.resolve(),
    removeTraces: (_, stays) => Promise.resolve(void done.push(`${name} but ${stays?.baseChains.filter}`)),
  });
  const draining: ModeCode = {
    ...mode("draining"),
    drain: {
      layout,
      start: () => ({
        prepare: () => Promise.resolve(void done.push("prepare")),
        async run() {
          done.push("drain");
          const delay = await Promise.resolve(delays.shift());
          if (delay instanceof Error) throw delay;
          return delay;
        },
      }),
    },
  };
  const load = (code: ModeCode) => () => Promise.resolve(code);
  const taking = withTakeover(mode("chosen"), [load(mode("other")), load(draining)], { ...options, clock });
  const change = { ...WHOLE, base: 1, settings: undefined };
  await taking.setup();
  assert.equal((await taking.sync(WHOLE)).againAfterMs, 2_000);
  assert.deepEqual(done.splice(0), ["setup", "prepare", "drain", "other but DRAIN"]);
  clock.advance(500);
  assert.equal((await taking.sync(change)).againAfterMs, 1_500);
  assert.deepEqual(done, []);
  clock.advance(1_500);
  assert.deepEqual(await taking.sync(change), { problems: [], counts: { cleanup_failures: 1 } });
  assert.equal((await taking.sync(change)).againAfterMs, undefined);
  assert.equal((await taking.resync()).againAfterMs, 1_000);
  clock.advance(1_000);
  await taking.sync(change);
  await taking.resync();
  assert.deepEqual(done, ["drain", "drain", "drain"]);
});
