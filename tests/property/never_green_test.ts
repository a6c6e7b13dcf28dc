/** The sync loop over real backends whose tools fail: what the proxy says about a kernel that it could not read or write. */
import assert from "node:assert/strict";
import fc from "fast-check";
import type { Runner, ToolCall } from "../../backends/tools/mod.ts";
import { ToolEndedError, ToolMissingError } from "../../backends/tools/runner.ts";
import { stateOfFamily } from "../../answers/status/states.ts";
import { type FamilyDelta, type ServicePort, servicePortKey } from "../../core/model/mod.ts";
import { createProblemBoard } from "../../core/problems/mod.ts";
import { createProxyHealth, createStatusRecorder } from "../../observe/mod.ts";
import { silentLogger } from "../../platform/log.ts";
import { createBackoff } from "../../platform/retry.ts";
import { createTopic } from "../../platform/topic.ts";
import { observeFamilies } from "../../node/family_observers.ts";
import type { FamilyTopics } from "../../node/served_family.ts";
import { startSyncLoop } from "../../workers/sync_loop.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { type BackendCase, BACKENDS, commonSettings } from "../unit/backends/every_backend.ts";
import { runs } from "./runs.ts";

const SYNC_PERIOD_MS = 30_000;

/** Ways in which the tools for rules fail until they are repaired. */
const FAULTS = {
  missing: ({ tool }: Pick<ToolCall, "tool">) => Promise.reject(new ToolMissingError(tool)),
  locked: () => Promise.resolve({ exitCode: 4, stdout: "", stderr: "Resource temporarily unavailable" }),
  refusing: () => Promise.resolve({ exitCode: 1, stdout: "", stderr: "line 1: something is wrong" }),
  killed: () => Promise.resolve({ exitCode: 137, stdout: "", stderr: "" }),
};

/** Tools that neither read nor write rules. */
const OTHER_TOOLS = ["conntrack", "sysctl", "choom"];

type Fault = keyof typeof FAULTS;
type Event =
  | { readonly does: "set" | "delete"; readonly ports: readonly ServicePort[] }
  | { readonly does: "break"; readonly fault: Fault }
  | { readonly does: "vandalize"; readonly at: number; readonly how: number }
  | { readonly does: "repair" | "snapshot" | "compare" }
  | { readonly does: "wait"; readonly ms: number };

const ports = fc.uniqueArray(fc.nat(3), { minLength: 1, maxLength: 3 }).map((numbers) =>
  numbers.map((number) => fakeServicePort(`default/s${number}:p`, { clusterIP: `10.96.0.${number}` }))
);
const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ does: fc.constantFrom("set" as const, "delete" as const), ports }),
  fc.record({ does: fc.constant("break" as const), fault: fc.constantFrom(...Object.keys(FAULTS) as Fault[]) }),
  fc.record({ does: fc.constant("vandalize" as const), at: fc.nat(), how: fc.nat(11) }),
  fc.record({ does: fc.constantFrom("repair" as const, "snapshot" as const, "compare" as const) }),
  fc.record({ does: fc.constant("wait" as const), ms: fc.constantFrom(0, 250, 2_000, SYNC_PERIOD_MS) }),
);

/** A runner whose tools for rules fail with the fault, and which notes how their last run ended. */
function faultyRunner(runner: Runner, state: { fault: Fault | undefined; hasFailed: boolean }): Runner {
  return {
    async run(call) {
      if (OTHER_TOOLS.includes(call.tool)) return await runner.run(call);
      state.hasFailed = state.fault !== undefined;
      return await (state.fault === undefined ? runner.run(call) : FAULTS[state.fault](call));
    },
    converse: runner.converse && ((call) => {
      state.hasFailed = state.fault !== undefined;
      if (state.fault !== undefined) throw new ToolMissingError(call.tool);
      const conversation = runner.converse!(call);
      return {
        ...conversation,
        ask(...question) {
          state.hasFailed = state.fault !== undefined;
          return state.fault === undefined
            ? conversation.ask(...question)
            : Promise.reject(new ToolEndedError(call.tool));
        },
      };
    }),
  };
}

/** Plays a history on a new kernel; asserts after each event that nothing is green if the last tool failed. */
async function play({ name, mode, createKernel }: BackendCase, events: readonly Event[]): Promise<void> {
  const kernel = createKernel(), { clock } = kernel;
  const tools = { fault: undefined as Fault | undefined, hasFailed: false };
  const problems = createProblemBoard(clock, silentLogger), recorder = createStatusRecorder();
  const health = createProxyHealth({ clock, syncPeriodMs: SYNC_PERIOD_MS });
  const topics: FamilyTopics = { planned: createTopic(), reported: createTopic(), healthChanged: createTopic() };
  observeFamilies(topics, {
    ...{ health, recorder, problems, logger: silentLogger },
    metrics: { queued() {}, observe() {}, workerHealth() {} },
    feed: { planned() {}, reported() {} },
    driftWatch: { report() {} },
    features: { changed() {}, reported() {} },
    ...{ nodeEvents: undefined, traces: undefined },
    onNoneSupported: assert.fail,
  });
  const observers = { onHealth: topics.healthChanged.publish, onReport: topics.reported.publish };
  observers.onHealth("IPv4", { state: "ready" });
  observers.onReport({
    ...{ family: "IPv6", revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 0, problems: [], counts: {} },
  }, []);
  const shown = () => {
    const record = recorder.families().find(({ family }) => family === "IPv4")!;
    const { healthy, inEffect, failure, families } = health.status(), current = problems.current();
    const details = {
      servicePorts: 0,
      changesPending: 0,
      features: {},
      noLocalEndpoints: { internal: 0, external: 0 },
      revision: 0,
    };
    const isHealthy = families.find(({ family }) => family === "IPv4")?.healthy ?? true;
    const status = { problems: current, atMs: clock.now() };
    return {
      report: record.syncs[0]?.ok,
      problems: current.length === 0,
      health: healthy && inEffect && failure === undefined,
      status: stateOfFamily({ ...record, ...details, healthy: isHealthy }, status).tone === "good",
    };
  };

  const desired = new Map<string, ServicePort>();
  const backend = await kernel.start((runner) => faultyRunner(runner, tools));
  const loop = startSyncLoop({
    ...{ family: "IPv4", backend, clock, logger: silentLogger },
    backoff: createBackoff({ firstMs: 250, longestMs: 30_000 }),
    emit(message) {
      if (message.type === "report") observers.onReport(message.report, []);
    },
  });
  await clock.advanceSettled(0);
  let revision = 0;
  const settings = { ...commonSettings(mode), syncPeriodMs: SYNC_PERIOD_MS };
  const send = (delta: Pick<FamilyDelta, "base" | "settings" | "set" | "deleted">) => {
    loop.sync({ ...delta, revision: ++revision });
  };
  const snapshot = () => send({ base: undefined, settings, set: [...desired.values()], deleted: [] });

  snapshot();
  await clock.advanceSettled(0);
  const apply = (event: Event): unknown => {
    switch (event.does) {
      case "set":
        for (const port of event.ports) desired.set(servicePortKey(port.name, port.protocol), port);
        return send({ base: revision, settings: undefined, set: event.ports, deleted: [] });
      case "delete": {
        const deleted = event.ports.map(({ name, protocol }) => servicePortKey(name, protocol));
        for (const key of deleted) desired.delete(key);
        return send({ base: revision, settings: undefined, set: [], deleted });
      }
      case "snapshot":
        return snapshot();
      case "break":
        return tools.fault = event.fault;
      case "repair":
        return tools.fault = undefined;
      case "vandalize":
        return kernel.vandalize(event.at, event.how);
      case "compare":
        return loop.compare();
      case "wait":
        return clock.advanceSettled(event.ms);
    }
  };
  for (const event of events) {
    await apply(event);
    await clock.advanceSettled(0);
    const nothingIsGreen = { report: false, problems: false, health: false, status: false };
    if (tools.hasFailed) assert.deepEqual(shown(), nothingIsGreen, `${name}, after ${event.does}`);
  }

  tools.fault = undefined;
  loop.compare();
  await clock.advanceSettled(3 * SYNC_PERIOD_MS);
  assert.deepEqual(shown(), { report: true, problems: true, health: true, status: true }, name);
  await loop.stop();
  const atOnce = createKernel();
  await (await atOnce.start()).sync({
    revision: 1,
    base: undefined,
    settings,
    set: [...desired.values()],
    deleted: [],
  });
  assert.equal(kernel.dump(), atOnce.dump(), name);
}

Deno.test("while the last attempt to read or write the kernel has failed, no report, problem list, health or status is green", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...BACKENDS), fc.array(event, { maxLength: 12 }), play),
    {
      ...runs(15),
      examples: BACKENDS.flatMap((each) =>
        [RULES_LOST, RESET, LOOK].map((events): [BackendCase, Event[]] => [each, [...events]])
      ),
    },
  );
});

/** The tools vanish, the rules are deleted, and the comparison of the next interval fails, again and again. */
const RULES_LOST: readonly Event[] = [
  { does: "break", fault: "missing" },
  { does: "vandalize", at: 0, how: 1 },
  { does: "wait", ms: SYNC_PERIOD_MS },
  ...[250, 250, 250, 2_000].map((ms) => ({ does: "wait", ms }) as const),
];

/** A comparison fails, and the worker receives its state again, which does not differ. */
const RESET: readonly Event[] = [{ does: "break", fault: "locked" }, { does: "compare" }, { does: "snapshot" }];

/** The check of the entry rules fails between two comparisons. */
const LOOK: readonly Event[] = [
  { does: "break", fault: "missing" },
  ...[2_000, 2_000].map((ms) => ({ does: "wait", ms }) as const),
];
