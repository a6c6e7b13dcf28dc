/** Events about the node: which are written, how often, and how failures are handled. */
import "../../../features/registry.ts";
import assert from "node:assert/strict";
import type { ApiWrite } from "../../../core/objects/mod.ts";
import { createEventRecorder } from "../../../observe/events.ts";
import { createNodeEvents } from "../../../observe/node_events.ts";
import type { SourceLink } from "../../../observe/process/mod.ts";
import type { SyncReport } from "../../../core/model/mod.ts";
import { createLogger } from "../../../platform/log.ts";
import { createFakeClock, promisesSettled, settled } from "../../fakes/clock.ts";

const MINUTE = 60_000;

interface WrittenEvent {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly lastTimestamp: string;
}

function setUp(answer: (request: ApiWrite) => Promise<unknown> = () => Promise.resolve({}), random = () => 0.5) {
  const clock = createFakeClock(undefined, promisesSettled);
  const end = new AbortController();
  const requests: ApiWrite[] = [];
  const logged: string[] = [];
  const recorder = createEventRecorder({
    nodeName: "n1",
    send(request) {
      requests.push(structuredClone(request));
      return answer(request);
    },
    uidOf: (service) => service.name === "gone" ? Promise.reject(new Error("down")) : Promise.resolve("1234"),
    isRefusal: (error) => /forbidden|not found/.test(String(error)),
    isGone: (error) => String(error).includes("not found"),
    clock,
    logger: createLogger({ level: "info", format: "text", clock, write: (line) => logged.push(line) }),
    signal: end.signal,
    random,
  });
  const written = () => requests.map(({ verb, object }) => ({ verb, ...(object as WrittenEvent) }));
  return { clock, end, requests, logged, recorder, written };
}

Deno.test("an event refers to the Node in the form that kubectl describe node looks for", async () => {
  const { requests, recorder } = setUp();
  recorder.record("Warning", "FailedToSync", "IPv4", "it fails");
  await settled();
  const [{ verb, resource, path, object }] = requests as [ApiWrite];
  assert.deepEqual([verb, resource, path], ["create", "events", "/api/v1/namespaces/default/events"]);
  const { metadata, involvedObject, source, ...rest } = object as Record<string, Record<string, unknown>>;
  assert.match(String(metadata!.name), /^n1\.[0-9a-f]+$/);
  assert.equal(metadata!.namespace, "default");
  assert.deepEqual(involvedObject, { apiVersion: "v1", kind: "Node", name: "n1", uid: "n1" });
  assert.deepEqual(source, { component: "sluice", host: "n1" });
  assert.deepEqual([rest.type, rest.reason, rest.message, rest.count], ["Warning", "FailedToSync", "it fails", 1]);
  assert.match(String(rest.firstTimestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
});

Deno.test("Events of the same moment have names of their own, after the time and with the same number of digits", async () => {
  const numbers = [0.75, 1e-6];
  const { clock, recorder, requests } = setUp(undefined, () => numbers.shift()!);
  recorder.record("Warning", "FailedToSync", "IPv4", "it fails");
  recorder.record("Warning", "FailedToSync", "IPv6", "it fails");
  await settled();
  const time = clock.now().toString(16);
  const names = requests.map(({ object }) => (object as { metadata: { name: string } }).metadata.name);
  assert.deepEqual(names, [`n1.${time}c00000`, `n1.${time}000010`]);
});

Deno.test("repeats become one event with a count, written at most every five minutes", async () => {
  const { clock, recorder, written, requests } = setUp();
  for (let second = 0; second < 600; second++) {
    recorder.record("Warning", "FailedToSync", "IPv4", `failure ${second}`);
    await clock.advanceSettled(1000);
  }
  assert.deepEqual(written().map(({ verb, count, message }) => [verb, count, message]), [
    ["create", 1, "failure 0"],
    ["patch", 300, "failure 299"],
    ["patch", 600, "failure 599"],
  ]);
  const secondsOf = ({ lastTimestamp }: WrittenEvent) => Date.parse(lastTimestamp) / 1000;
  const [first, ...later] = written().map(secondsOf);
  assert.deepEqual(later.map((seconds) => seconds - first!), [299, 599], "the time of the last repeat");
  assert.ok(requests[1]!.path.startsWith("/api/v1/namespaces/default/events/n1."));
  await clock.advanceSettled(60 * MINUTE);
  assert.equal(requests.length, 3, "the event is not written again after the last repeat");
});

Deno.test("a burst of different events is limited, and more follow at one every five minutes", async () => {
  const { clock, recorder, requests } = setUp();
  for (let i = 0; i < 60; i++) recorder.record("Warning", `Reason${i}`, "", "odd");
  await settled();
  assert.equal(requests.length, 25);
  await clock.advanceSettled(11 * MINUTE);
  for (let i = 100; i < 110; i++) recorder.record("Warning", `Reason${i}`, "", "odd");
  await settled();
  assert.equal(requests.length, 27);
  await clock.advanceSettled(24 * 60 * MINUTE);
  for (let i = 200; i < 260; i++) recorder.record("Warning", `Reason${i}`, "", "odd");
  await settled();
  assert.equal(requests.length, 27 + 25, "a quiet day allows no larger burst");
});

Deno.test("the oldest of many different Events, and of many namespaces, are forgotten, so that memory is bounded", async () => {
  const { clock, recorder, written } = setUp();
  const record = async (namespace: string, reason: string) => {
    recorder.record("Warning", reason, "", "odd", {
      ...{ kind: "Service", name: "web", action: "Balance" } as const,
      namespace,
    });
    await clock.advanceSettled(6 * MINUTE);
  };
  for (let i = 0; i < 65; i++) await record("shop", `Reason${i}`);
  await record("shop", "Reason64");
  await record("shop", "Reason0");
  assert.deepEqual(written().slice(-2).map(({ verb, count }) => [verb, count]), [["patch", 2], ["create", 1]]);
  for (let i = 0; i < 255; i++) await record(`tenant-${i}`, "Odd");
  await record("shop", "Reason64");
  await record("tenant-255", "Odd");
  await record("shop", "Reason64");
  await record("tenant-1", "Odd");
  await record("tenant-0", "Odd");
  assert.deepEqual(written().slice(-3).map(({ verb, count }) => [verb, count]), [
    ["patch", 4],
    ["patch", 2],
    ["create", 1],
  ]);
});

Deno.test("a namespace whose Services cause many Events takes none from others, nor from the node", async () => {
  const { clock, recorder, requests } = setUp();
  const record = (namespace: string, reason: string) =>
    recorder.record("Warning", reason, `${namespace}/web`, "odd", {
      ...{ kind: "Service", name: "web", action: "Balance" } as const,
      namespace,
    });
  recorder.record("Warning", "FailedToSync", "IPv4", "it fails");
  await clock.advanceSettled(6 * MINUTE);
  for (let i = 0; i < 100; i++) record("noisy", `Reason${i}`);
  record("shop", "BalanceIgnored");
  recorder.record("Warning", "FailedToSync", "IPv4", "it fails again");
  await settled();
  const written = requests.map(({ verb, path }) => `${verb} ${path.split("/")[4]}`);
  assert.deepEqual(written.filter((one) => one === "create noisy").length, 25);
  assert.deepEqual(written.filter((one) => one !== "create noisy"), ["create default", "create shop", "patch default"]);
});

Deno.test("if events are forbidden, one line is logged and no more are sent", async () => {
  const { clock, recorder, requests, logged } = setUp(() => Promise.reject(new Error("forbidden here")));
  for (let i = 0; i < 3; i++) recorder.record("Normal", `Reason${i}`, "", "odd");
  await clock.advanceSettled(10 * MINUTE);
  recorder.record("Normal", "Another", "", "odd");
  await clock.advanceSettled(10 * MINUTE);
  assert.equal(requests.length, 1);
  assert.equal(logged.length, 1);
  assert.match(logged[0]!, /INFO.*refused.*forbidden here/);
});

Deno.test("an Event that the API server has deleted is created again, and others are written as before", async () => {
  let events = new Set<string>();
  const { clock, recorder, requests, logged } = setUp(({ verb, path, object }) => {
    const { metadata } = object as { readonly metadata?: { readonly name: string } };
    if (verb === "create") events.add(metadata!.name);
    else if (!events.has(path.split("/").at(-1)!)) return Promise.reject(new Error("not found"));
    return Promise.resolve({});
  });
  recorder.record("Warning", "FailedToSync", "IPv4", "first");
  await clock.advanceSettled(6 * MINUTE);
  events = new Set();
  recorder.record("Warning", "FailedToSync", "IPv4", "second");
  await clock.advanceSettled(6 * MINUTE);
  recorder.record("Warning", "FailedToSync", "IPv4", "third");
  recorder.record("Warning", "AnotherReason", "", "other");
  await settled();
  assert.deepEqual(requests.map(({ verb }) => verb), ["create", "patch", "create", "patch", "create"]);
  assert.equal(events.size, 2);
  assert.deepEqual(logged, []);
});

Deno.test("a Service's Event that is forbidden, as in a namespace that is deleted, stops no other Event", async () => {
  const { recorder, requests, logged } = setUp(({ path }) =>
    path.includes("/leaving/")
      ? Promise.reject(new Error("forbidden: namespace is being terminated"))
      : Promise.resolve({})
  );
  const service = { kind: "Service", namespace: "leaving", name: "web", action: "Balance" } as const;
  recorder.record("Warning", "BalanceIgnored", "leaving/web", "odd", service);
  recorder.record("Warning", "FailedToSync", "IPv4", "it fails");
  await settled();
  assert.deepEqual(requests.map(({ path }) => path), [
    "/api/v1/namespaces/leaving/events",
    "/api/v1/namespaces/default/events",
  ]);
  assert.deepEqual(logged, []);
});

Deno.test("writes to an unreachable API server are retried for a while without blocking callers", async () => {
  let isUp = false;
  const { clock, recorder, written, logged } = setUp(() =>
    isUp ? Promise.resolve({}) : Promise.reject(new Error("down"))
  );
  recorder.record("Normal", "Starting", "", "here");
  await clock.advanceSettled(30_000);
  isUp = true;
  await clock.advanceSettled(30_000);
  const tries = written();
  assert.ok(tries.length > 2 && tries.length < 9, String(tries.length));
  assert.deepEqual(logged, []);
});

Deno.test("a message is truncated to the length limit of events", async () => {
  const { recorder, written } = setUp();
  recorder.record("Warning", "Long", "", "x".repeat(5000));
  await settled();
  assert.equal(written()[0]!.message.length, 1000);
});

function nodeEvents(sharesUplink = false) {
  const clock = createFakeClock(undefined, promisesSettled);
  const recorded: string[] = [];
  const events = createNodeEvents({
    recorder: { record: (type, reason, _about, message) => recorded.push(`${type} ${reason} ${message}`) },
    mode: "nftables",
    sharesUplink,
    clock,
  });
  const report = (changes: Partial<SyncReport>) =>
    events.report({
      family: "IPv4",
      revision: 1,
      ok: true,
      full: false,
      endedAtMs: 0,
      durationMs: 1,
      problems: [],
      counts: {},
      ...changes,
    });
  return { clock, recorded, events, report };
}

Deno.test("a missing Node object is reported", () => {
  const { recorded, events } = nodeEvents();
  events.nodeMissing("there is no Node n1");
  assert.deepEqual(recorded.slice(1), ["Warning NodeNotFound there is no Node n1"]);
});

Deno.test("the start, a family that keeps failing and its recovery are recorded", () => {
  const { clock, recorded, report } = nodeEvents();
  assert.match(recorded[0]!, /^Normal Starting Sluice .* starts in nftables mode$/);
  const failed = {
    ok: false,
    problems: [{ code: "sync-failed", servicePort: undefined, message: "nft: no space" }],
  } as const;
  report(failed);
  clock.advance(9_000);
  report(failed);
  report({});
  report(failed);
  assert.equal(recorded.length, 1, "it recovered on its own");
  clock.advance(10_000);
  report(failed);
  report({ family: "IPv6" });
  report({});
  report({});
  assert.deepEqual(recorded.slice(1), [
    "Warning FailedToSync IPv4: changes of services do not reach the kernel: nft: no space",
    "Normal Synced IPv4: the kernel is in sync again",
  ]);
  report(failed);
  assert.equal(recorded.length, 3, "the next failure is a new one");
});

Deno.test("of many refused services, five have an Event of their own", () => {
  const { recorded, report } = nodeEvents();
  report({
    problems: Array.from({ length: 9 }, (_, i) => (
      { code: "rules-refused", servicePort: `default/s${i}`, message: "refused" } as const
    )),
  });
  assert.deepEqual(recorded.slice(1), [
    "Warning ServiceNotProgrammed IPv4: default/s0 and 8 more cannot be programmed: refused",
    ...[0, 1, 2, 3, 4].map((i) =>
      `Warning ServiceNotProgrammed default/s${i} (IPv4) is not in effect on this node: refused`
    ),
  ]);
});

Deno.test("in a site, the start and the API server's return need no Event, problems do", () => {
  const { clock, recorded, events } = nodeEvents(true);
  const link = (state: "connected" | "disconnected") =>
    events.link({ state, sinceMs: clock.now(), server: "https://api" } as SourceLink);
  link("disconnected");
  clock.advance(60_000);
  link("connected");
  assert.deepEqual(recorded, []);
  events.nodeMissing("there is no Node n1");
  assert.deepEqual(recorded, ["Warning NodeNotFound there is no Node n1"]);
});

Deno.test("services that cannot be programmed and failed workers are recorded; an unsupported family is not", () => {
  const { recorded, events, report } = nodeEvents();
  const problem = (servicePort: string) => ({ code: "rules-refused", servicePort, message: "refused" } as const);
  report({ problems: [problem("default/a:http")] });
  report({ problems: [problem("default/a:http"), problem("default/b"), problem("default/c")] });
  events.workerHealth("IPv6", { state: "unfit", reason: "no IPv6", unsupported: true });
  events.workerHealth("IPv6", { state: "unfit", reason: "nft: not found", unsupported: false });
  events.workerHealth("IPv4", { state: "restarting", reason: "it hung", restarts: 1 });
  events.workerHealth("IPv4", { state: "ready" });
  assert.deepEqual(recorded.slice(1), [
    "Warning ServiceNotProgrammed IPv4: default/a:http cannot be programmed: refused",
    "Warning ServiceNotProgrammed default/a:http (IPv4) is not in effect on this node: refused",
    "Warning ServiceNotProgrammed IPv4: default/a:http and 2 more cannot be programmed: refused",
    ...["a:http", "b", "c"].map((name) =>
      `Warning ServiceNotProgrammed default/${name} (IPv4) is not in effect on this node: refused`
    ),
    "Warning CannotBeServed IPv6: nft: not found",
    "Warning WorkerRestarted IPv4: it hung",
  ]);
});

Deno.test("a problem is recorded if the table names an Event for its code", () => {
  const { recorded, events } = nodeEvents();
  events.problem({ code: "changes-overdue", subject: "IPv4", detail: "60 s" });
  events.problem({ code: "leftovers-kept", subject: "IPv4", detail: "busy" });
  // The Event of an endpoint belongs to its Service.
  events.problem({ code: "endpoint-unreachable", subject: "10.1.0.1:80", detail: "silent" });
  assert.deepEqual(recorded.slice(1).map((line) => line.replace(/: .*: /, ": … ")), [
    "Warning ChangesOverdue IPv4: … 60 s",
  ]);
});

Deno.test("a health check node port that cannot be opened is an event of its Service, in its namespace", async () => {
  const { clock, recorder, requests } = setUp();
  const events = createNodeEvents({ recorder, mode: "nftables", sharesUplink: false, clock });
  events.healthCheckFailed("shop/web", 32000, "cannot listen on 192.0.2.1: Address already in use");
  await settled();
  const { verb, path, object } = requests[1]!;
  assert.deepEqual([verb, path], ["create", "/api/v1/namespaces/shop/events"]);
  const { metadata, involvedObject, type, reason, action, message } = object as Record<string, unknown>;
  assert.deepEqual([type, reason, action], ["Warning", "FailedToStartServiceHealthcheck", "Listen"]);
  assert.equal((metadata as { namespace: string }).namespace, "shop");
  assert.deepEqual(involvedObject, {
    apiVersion: "v1",
    kind: "Service",
    namespace: "shop",
    name: "web",
    uid: "1234",
  });
  assert.match(String(message), /32000 is not served on this node: cannot listen on 192\.0\.2\.1/);
});

Deno.test("a refused service has events of its own, also when it is accepted again", async () => {
  const { clock, recorder, requests } = setUp();
  const events = createNodeEvents({ recorder, mode: "nftables", sharesUplink: false, clock });
  const report = {
    family: "IPv4",
    revision: 1,
    ok: true,
    full: false,
    endedAtMs: 0,
    durationMs: 1,
    counts: {},
  } as const;
  const refused = ["shop/web:http", "shop/gone"].map((servicePort) =>
    ({ code: "rules-refused", servicePort, message: "too long" }) as const
  );
  events.report({ ...report, problems: refused });
  events.report({ ...report, problems: [refused[1]!] });
  events.report({ ...report, problems: [refused[1]!] });
  await settled();
  const ofServices = requests.map(({ object }) =>
    object as Record<string, string> & { involvedObject: Record<string, string> }
  )
    .filter(({ involvedObject }) => involvedObject.kind === "Service")
    .map(({ reason, involvedObject: { namespace, name, uid } }) => [reason, `${namespace}/${name}`, uid]);
  assert.deepEqual(ofServices, [
    ["ServiceNotProgrammed", "shop/web", "1234"],
    ["ServiceNotProgrammed", "shop/gone", "shop/gone"],
    ["ServiceProgrammed", "shop/web", "1234"],
  ]);
});

Deno.test("repairs and the return of the API server are recorded, a short outage is not", () => {
  const { recorded, events, report } = nodeEvents();
  report({ counts: { drift_repaired: 2 } });
  const link = { server: "https://api:6443", lastReceivedMs: 0, lastError: "", lastErrorMs: 0, retryAtMs: undefined };
  const outage = (startMs: number, endMs: number) => {
    events.link({ ...link, state: "disconnected", sinceMs: startMs });
    events.link({ ...link, state: "connected", sinceMs: endMs });
  };
  events.link({ ...link, state: "connected", sinceMs: 0 });
  outage(1_000, 9_000);
  outage(100_000, 160_000);
  assert.deepEqual(recorded.slice(1), [
    "Warning RulesRepaired IPv4: 2 changes of services' rules by other programs repaired",
    "Normal SourceRestored https://api:6443 was unreachable for 60 s; changes are applied again",
  ]);
});

Deno.test("a balancing annotation without effect is an event of its Service", async () => {
  const { clock, recorder, requests } = setUp();
  const events = createNodeEvents({ recorder, mode: "iptables", sharesUplink: false, clock });
  const detail = "annotation sluice.dev/balance: iptables mode has no consistent-hash; balanced at random";
  events.serviceProblem("shop/web", { code: "balance-ignored", subject: "shop/web", detail }, "Balance");
  await settled();
  const { path, object } = requests[1]!;
  assert.equal(path, "/api/v1/namespaces/shop/events");
  const { type, reason, action, message } = object as Record<string, unknown>;
  assert.deepEqual([type, reason, action], ["Warning", "BalanceIgnored", "Balance"]);
  assert.equal(message, `a balancing annotation has no effect: ${detail}`);
});
