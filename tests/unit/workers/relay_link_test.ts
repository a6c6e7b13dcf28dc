import assert from "node:assert/strict";
import type { FamilyHealth, FamilyListener, FamilyOptions } from "../../../core/channel/mod.ts";
import {
  type FamilyDelta,
  readPacketCounts,
  readTraffic,
  type SyncProblem,
  type TrafficReading,
} from "../../../core/model/mod.ts";
import { silentLogger } from "../../../platform/log.ts";
import { defaultRelayLimits } from "../../../relay/mod.ts";
import type { RelayListener, RelayWorker } from "../../../workers/relay_worker.ts";
import { createOwnFrontends, relayLimits } from "../../../workers/relay.ts";
import { placementOf, withRelays } from "../../../workers/relays.ts";
import { relaysOnDemand } from "../../../workers/start.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";
import { createFakeFamilyLink, type FakeFamilyLink } from "../../fakes/family_link.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";

const HERE = ["192.168.1.1", "fd00:168::1"];
const OWN_ADDRESSES = ["127.0.0.1", "::1", ...HERE];
const WEB = fakeServicePort("default/web"), DNS = fakeServicePort("default/dns", { protocol: "udp", port: 53 });
const TAKEN: SyncProblem = { code: "not-relayed", servicePort: "default/dns", message: "the port is taken" };

const delta = (revision: number, changes: Partial<FamilyDelta> = {}): FamilyDelta => (
  { revision, base: revision - 1, settings: undefined, set: [WEB], deleted: [], ...changes }
);
const whole = (revision: number, settings = fakeSettings({ mode: "userspace" })) =>
  delta(revision, { base: undefined, settings });

/** A relay that records what it is asked to do, and whose events a test triggers. */
function fakeRelay() {
  let listener: RelayListener | undefined;
  const applied: FamilyDelta[] = [];
  const carried: TrafficReading[] = [];
  let isStopped = false;
  const worker: RelayWorker = {
    listen: (replaced) => void (listener = replaced),
    apply: (given) => void applied.push(given),
    counts: () => Promise.resolve(undefined),
    traffic: () => Promise.resolve(carried.shift()),
    stop() {
      isStopped = true;
      return Promise.resolve();
    },
  };
  return {
    worker,
    applied,
    carried,
    isStopped: () => isStopped,
    isDetached: () => listener === undefined,
    answers(ports: readonly ({ cluster?: number; local?: number } | undefined)[], more: Partial<SyncProblem>[] = []) {
      const { revision } = applied.at(-1)!;
      const problems = more as SyncProblem[];
      listener?.onApplied({ type: "applied", revision, ports, problems, recovered: false });
    },
    tell: () => listener!,
  };
}

/** The deltas that the rules got. */
function sentBy(family: FakeFamilyLink): readonly FamilyDelta[] {
  return family.sent;
}

function linked(reading?: TrafficReading | null) {
  const family = createFakeFamilyLink(reading);
  const relays: ReturnType<typeof fakeRelay>[] = [];
  const told: string[] = [];
  const reported: string[] = [];
  const listener: FamilyListener = {
    onReset: () => void told.push("reset"),
    onReport: ({ revision }) => void told.push(`report ${revision}`),
    onProblems: (scope, problems) =>
      void reported.push([scope, ...problems.map(({ code, subject }) => `${code} of ${subject}`)].join(" ")),
    onHealth: (health: FamilyHealth) =>
      void told.push(health.state === "restarting" ? `restart ${health.restarts}: ${health.reason}` : health.state),
  };
  const options: FamilyOptions = {
    family: "IPv4",
    mode: "userspace",
    logLevel: "error",
    logFormat: "text",
    kernel: [],
    relay: { files: 1024, maxConnections: 0, udpIdleTimeoutMs: 0 },
    clock: createFakeClock(),
    logger: silentLogger,
  };
  const startRelay = () => {
    const relay = fakeRelay();
    relays.push(relay);
    return relay.worker;
  };
  const start = withRelays((_, workerListener) => family.connect(workerListener), startRelay, () => OWN_ADDRESSES);
  const startAgain = (changes?: Partial<FamilyOptions>) => start({ ...options, ...changes }, listener);
  return { link: startAgain(), startAgain, family, relays, relay: () => relays.at(-1)!, told, reported };
}

Deno.test("the rules get a delta with the relay's ports and address, once the relay has applied it", () => {
  const { link, family, relay } = linked();
  link.send({ ...whole(1), set: [WEB, DNS] });
  assert.deepEqual(family.sent, []);
  relay().answers([{ cluster: 41_000 }, undefined]);
  assert.deepEqual(sentBy(family)[0]!.set, [{ ...WEB, relay: { cluster: 41_000 } }, DNS]);
  assert.equal(sentBy(family)[0]!.settings!.relayAddress, "192.168.1.1");
  link.send(delta(2));
  relay().answers([{ cluster: 41_000, local: 41_001 }]);
  assert.deepEqual(sentBy(family)[1]!.set, [{ ...WEB, relay: { cluster: 41_000, local: 41_001 } }]);
  assert.equal(sentBy(family)[1]!.settings, undefined);
});

Deno.test("without an address of its own, the relay listens on all, and the kernel picks one", () => {
  for (const nodeIP of ["127.0.0.1", "203.0.113.1"]) {
    const { link, family, relay } = linked();
    link.send(whole(1, fakeSettings({ mode: "userspace", nodeIP })));
    relay().answers([{ cluster: 41_000 }]);
    assert.equal(sentBy(family)[0]!.settings!.relayAddress, undefined);
  }
});

Deno.test("a new address of the node moves the relay, which gets the whole state", async () => {
  const { link, family, relays, told } = linked();
  link.send(whole(1));
  const moved = fakeSettings({ mode: "userspace", nodeIP: "fd00:168::1" });
  link.send(delta(2, { settings: moved }));
  await settled();
  assert.deepEqual(told, ["reset"]);
  assert.deepEqual([relays.length, relays[0]!.isStopped(), relays[1]!.applied.length], [2, true, 0]);
  link.send(whole(3, moved));
  relays[0]!.answers([{ cluster: 1 }]);
  assert.deepEqual(family.sent, []);
  relays[1]!.answers([{ cluster: 41_000 }]);
  assert.deepEqual(family.sent.map(({ revision }) => revision), [3]);
});

Deno.test("ports for a state that the worker has lost are not sent", () => {
  const { link, family, relay, told } = linked();
  link.send(whole(1));
  relay().answers([{ cluster: 41_000 }]);
  link.send(delta(2));
  family.reset();
  relay().answers([{ cluster: 41_000 }]);
  assert.deepEqual(family.sent.map(({ revision }) => revision), [1]);
  link.send(whole(3));
  relay().tell().onApplied({ type: "applied", revision: 2, ports: [{ cluster: 1 }], problems: [], recovered: false });
  assert.deepEqual(family.sent.map(({ revision }) => revision), [1]);
  for (let answers = 0; answers < 2; answers++) relay().answers([{ cluster: 41_000 }]);
  assert.deepEqual(family.sent.map(({ revision }) => revision), [1, 3], "a second answer sends nothing");
  assert.deepEqual(told, ["reset"]);
});

Deno.test("a relay that dies is reported, and the rules stay until a new one has the whole state", () => {
  const { link, family, relay, told } = linked();
  family.health({ state: "ready" });
  link.send(whole(1));
  relay().tell().onLost("out of memory", 1);
  family.health({ state: "ready" });
  relay().answers([{ cluster: 41_000 }]);
  assert.deepEqual(family.sent, []);
  relay().tell().onRestarted();
  assert.deepEqual(told, ["ready", "restart 1: the relay died: out of memory", "ready", "reset"]);
  family.health({ state: "restarting", reason: "hung", restarts: 2 });
  assert.equal(told.at(-1), "restart 3: hung", "restarts of both count");
});

Deno.test("service ports that the relay cannot serve are reported until it serves them or ends", async () => {
  const { link, relay, reported } = linked();
  link.send(whole(1));
  relay().answers([undefined], [TAKEN]);
  link.send(delta(2));
  relay().answers([{ cluster: 41_000 }]);
  await link.stop();
  assert.deepEqual(reported, ["relay not-relayed of default/dns (IPv4)", "relay", "relay"]);
});

Deno.test("a service port that got its listener late is sent with the whole state", () => {
  const { link, relay, told } = linked();
  link.send(whole(1));
  relay().tell().onApplied({ type: "applied", revision: 1, ports: [undefined], problems: [], recovered: true });
  assert.deepEqual(told, ["reset"]);
});

Deno.test("node ports at localhost need a relay only if the configuration names them, and the rules do not wait for it", () => {
  const { link, family, relays } = linked();
  const settings = (localhostNodePorts: boolean) => fakeSettings({ mode: "nftables", localhostNodePorts });
  link.send(whole(1, settings(false)));
  assert.equal(relays.length, 0);
  link.send(whole(2, settings(true)));
  link.send(delta(3));
  assert.deepEqual(family.sent.map(({ revision }) => revision), [1, 2, 3]);
  assert.deepEqual(relays[0]!.applied.map(({ revision }) => revision), [2, 3]);
  assert.deepEqual(placementOf("IPv6", settings(true), OWN_ADDRESSES), {
    by: "localhost-node-ports",
    addresses: ["::1"],
  });
  link.send(whole(4, settings(false)));
  assert.equal(relays[0]!.isStopped(), true);
});

Deno.test("the relay of a family without services ends, and one that is started again is kept", async () => {
  const resting = linked();
  resting.link.send(whole(1));
  resting.family.allowRest(false);
  assert.equal(resting.link.rest(), false);
  assert.equal(resting.relay().isStopped(), false);
  resting.family.allowRest(true);
  assert.equal(resting.link.rest(), true);
  assert.equal(resting.relay().isStopped(), true);
  for (const keepWorker of [true, false]) {
    const { link, startAgain, relays, family } = linked();
    link.send(whole(1));
    await link.stop({ keepWorker });
    assert.deepEqual([relays[0]!.isStopped(), relays[0]!.isDetached(), family.isStopped()], [!keepWorker, true, true]);
    startAgain().send(whole(1));
    assert.equal(relays.length, keepWorker ? 1 : 2);
  }
});

Deno.test("a relay that has ended since it was kept is not used again", async () => {
  const { link, startAgain, relays, family } = linked();
  link.send(whole(1));
  await link.stop({ keepWorker: true });
  const without = startAgain({ relay: undefined });
  family.report({ ok: true, full: true });
  await without.stop({ keepWorker: true });
  startAgain().send(whole(1));
  assert.deepEqual(relays.map((relay) => relay.isStopped()), [true, false]);
});

Deno.test("a relay that the rules do not wait for neither delays them nor counts as the family's health", () => {
  const { link, family, relay, told } = linked();
  link.send(whole(1, fakeSettings({ mode: "nftables", localhostNodePorts: true })));
  relay().tell().onApplied({ type: "applied", revision: 1, ports: [{ cluster: 1 }], problems: [], recovered: true });
  relay().tell().onLost("out of memory", 1);
  family.health({ state: "ready" });
  assert.deepEqual([family.sent.length, told, link.relayPlaces!()], [1, ["ready"], undefined]);
});

Deno.test("without a relay that serves, no port of one is known", () => {
  const { link, relay } = linked();
  assert.equal(link.relayPlaces!(), undefined);
  link.send(whole(1));
  relay().answers([{ cluster: 41_000 }]);
  assert.equal(link.relayPlaces!()!.ports.size, 1);
  link.rest();
  assert.equal(link.relayPlaces!(), undefined);
});

Deno.test("only readings of traffic ask the relay", async () => {
  const { link, relay } = linked();
  link.send(whole(1));
  const reading = { durationMs: 0, ports: [], endpoints: [], counts: new Float64Array(), failures: [] };
  relay().carried.push(reading);
  assert.equal(await link.call(readPacketCounts, undefined), undefined);
  assert.deepEqual(relay().carried, [reading]);
});

Deno.test("a relay that was kept ends if the family is started again with other settings for it", async () => {
  const { link, startAgain, relays } = linked();
  link.send(whole(1));
  await link.stop({ keepWorker: true });
  startAgain({ relay: { files: 1024, maxConnections: 9, udpIdleTimeoutMs: 0 } }).send(whole(1));
  assert.deepEqual(relays.map((relay) => relay.isStopped()), [true, false]);
});

Deno.test("a relay that was kept and is no longer needed ends when the rules are complete without it, or with the family", async () => {
  const left = async () => {
    const lab = linked();
    lab.link.send(whole(1));
    await lab.link.stop({ keepWorker: true });
    return { ...lab, link: lab.startAgain({ relay: undefined }) };
  };
  const { family, relay, told } = await left();
  for (const report of [{ ok: false, full: true }, { ok: true, full: false }]) family.report(report);
  assert.equal(relay().isStopped(), false);
  family.report({ ok: true, full: true });
  assert.equal(relay().isStopped(), true);
  assert.deepEqual(told, ["report 0", "report 0", "report 0"], "the reports are passed on");
  const stopped = await left();
  await stopped.link.stop();
  assert.equal(stopped.relay().isStopped(), true);
});

Deno.test("the settings of a relay replace its own limits, and 0 stands for these", () => {
  const files = 20_000, own = defaultRelayLimits(files);
  assert.deepEqual(relayLimits({ files, maxConnections: 0, udpIdleTimeoutMs: 0 }), own);
  const udpIdle = { udpAnsweredIdleMs: 9, udpIdleMs: 9, udpStreamIdleMs: 9 };
  assert.deepEqual(
    relayLimits({ files, maxConnections: 7, udpIdleTimeoutMs: 9 }),
    { ...own, connections: 7, ...udpIdle },
  );
});

Deno.test("a relay must not connect to what the rules send to it", () => {
  const frontends = createOwnFrontends();
  const web = { ...WEB, nodePort: 30080, loadBalancerIPs: ["192.0.2.1"] };
  frontends.note({ ...whole(1), set: [web, DNS] });
  const has = (...endpoints: string[]) => endpoints.map((endpoint) => frontends.has(endpoint, "tcp"));
  assert.deepEqual(has("10.96.0.10:80", "192.0.2.1:80", "192.168.1.1:30080"), [true, true, true]);
  assert.deepEqual(has("10.96.0.10:81", "10.1.0.1:8080", "10.96.0.10:53"), [false, false, false]);
  assert.equal(frontends.has("10.96.0.10:53", "udp"), true);
  frontends.note(delta(2, { set: [{ ...web, port: 81 }], deleted: ["default/dns|udp"] }));
  assert.deepEqual(has("10.96.0.10:80", "10.96.0.10:81"), [false, true]);
  assert.equal(frontends.has("10.96.0.10:53", "udp"), false);
  frontends.note(delta(3, { set: [{ ...web, nodePortPrefixes: ["192.168.2.0/24"] }] }));
  assert.deepEqual(has("10.96.0.10:80", "192.168.1.1:30080"), [true, false]);
  const moved = fakeSettings({ mode: "userspace", nodeIP: "192.168.1.2" });
  frontends.note(delta(4, { settings: moved, set: [web] }));
  assert.deepEqual(has("192.168.1.1:30080", "192.168.1.2:30080"), [false, true]);
  frontends.note({ ...whole(5), set: [] });
  assert.deepEqual(has("10.96.0.10:80"), [false]);
});

Deno.test("a reading has what the relay has carried, and what the rules have counted", async () => {
  const failures = [{ port: "default/dns|udp", reason: "no-endpoints", packets: 3 }] as const;
  const none = { durationMs: 5, ports: [], endpoints: [], counts: new Float64Array(), failures };
  const { link, relay } = linked(none);
  link.send(whole(1));
  const carried = { durationMs: 0, ports: ["default/web|tcp"], endpoints: ["10.1.0.1:80"] };
  relay().carried.push({ ...carried, counts: Float64Array.of(2, 0, 500), failures: [] });
  const both = { ...none, ...carried, durationMs: 5, counts: Float64Array.of(2, 0, 500) };
  assert.deepEqual(await link.call(readTraffic, undefined), both);
  assert.deepEqual(await link.call(readTraffic, undefined), none);
});

Deno.test("a reading has what the relay has carried, also if the worker of the rules does not answer", async () => {
  const { link, relay } = linked(null);
  link.send(whole(1));
  const carried = { durationMs: 0, ports: ["default/web|tcp"], endpoints: ["10.1.0.1:80"] };
  const reading = { ...carried, counts: Float64Array.of(2, 0, 500), failures: [] };
  relay().carried.push(reading);
  assert.deepEqual(await link.call(readTraffic, undefined), reading);
});

Deno.test("without a relay, a reading is that of the rules", async () => {
  const reading = { durationMs: 5, ports: [], endpoints: [], counts: new Float64Array(), failures: [] };
  const { link } = linked(reading);
  assert.deepEqual(await link.call(readTraffic, undefined), reading);
});

Deno.test("a relay listens for UDP at the node's address if that is here, else at all addresses of its family", () => {
  const addressOf = (family: "IPv4" | "IPv6", nodeIP: string) => {
    const placement = placementOf(family, fakeSettings({ mode: "userspace", nodeIP }), OWN_ADDRESSES);
    return placement?.by === "redirect" ? placement.udpAddress : undefined;
  };
  for (const here of HERE) assert.equal(addressOf(here.includes(":") ? "IPv6" : "IPv4", here), here);
  for (const other of ["127.0.0.1", "203.0.113.1"]) assert.equal(addressOf("IPv4", other), "0.0.0.0");
  for (const other of ["::1", "2001:db8::1"]) assert.equal(addressOf("IPv6", other), "::");
});

Deno.test("a relay that died and is no longer needed does not hide the health of the rules", () => {
  const { link, family, relay, told } = linked();
  link.send(whole(1));
  relay().tell().onLost("out of memory", 1);
  link.send(whole(2, fakeSettings({ mode: "nftables", localhostNodePorts: false })));
  family.health({ state: "ready" });
  assert.equal(told.at(-1), "ready");
});

Deno.test("a service port that is deleted has no place at the relay any longer", () => {
  const { link, family, relay } = linked();
  link.send(whole(1));
  relay().answers([{ cluster: 41_000 }]);
  link.send(delta(2, { set: [], deleted: ["default/web|tcp"] }));
  relay().answers([]);
  assert.deepEqual([link.relayPlaces!()!.ports, family.sent.length], [new Map(), 2]);
});

Deno.test("a service port that loses its listener, or is in no whole state any longer, has no place at the relay", () => {
  const { link, family, relay } = linked();
  link.send({ ...whole(1), set: [WEB, DNS] });
  relay().answers([{ cluster: 41_000 }, { cluster: 41_001 }]);
  link.send(delta(2));
  relay().answers([undefined], [TAKEN]);
  assert.deepEqual(sentBy(family)[1]!.set, [WEB]);
  assert.deepEqual([...link.relayPlaces!()!.ports.keys()], ["default/dns|udp"]);
  link.send(whole(3));
  relay().answers([{ cluster: 41_000 }]);
  assert.deepEqual([...link.relayPlaces!()!.ports.keys()], ["default/web|tcp"]);
});

Deno.test("a relay that gives no counts has none, rather than counts without values", async () => {
  const { link } = linked();
  link.send(whole(1));
  assert.equal(await link.relayCounts!(), undefined);
});

Deno.test("relays are added from the first configuration that needs one on", async () => {
  const start = () => createFakeFamilyLink().connect({} as FamilyListener);
  const withRelay = relaysOnDemand(start);
  assert.equal(await withRelay(false), start);
  const added = await withRelay(true);
  assert.notEqual(added, start);
  assert.equal(await withRelay(false), added, "one may have to end");
});
