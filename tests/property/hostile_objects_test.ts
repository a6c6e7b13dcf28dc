/** Hostile objects: nothing breaks, none of their text becomes a rule, and other services are served. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeObject } from "../../core/objects/decode.ts";
import { KINDS } from "../../core/objects/cluster_object.ts";
import { createFamilyPlanner, type FamilyPlanner } from "../../core/planning/mod.ts";
import { createTracking, type Tracking } from "../../core/tracking/trackers.ts";
import { FAMILIES, type Family } from "../../platform/address.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { backendUnderTest as iptablesBackend, podSettings } from "../unit/backends/iptables/host.ts";
import { backendUnderTest as nftablesBackend, nftSettings } from "../unit/backends/nftables/host.ts";
import { backendUnderTest as ipvsBackend, createIpvsHost, ipvsModeSettings } from "../unit/backends/ipvs/host.ts";
import { checkedMessage } from "../../workers/checked_message.ts";
import type { ToWorker } from "../../workers/protocol.ts";
import { hostileObjects } from "./hostile_generators.ts";
import { sayProblems } from "../fakes/problems.ts";
import { runs } from "./runs.ts";

/** Runs of about 20 objects each; `PROPERTY_RUNS=100` tests 100,000 objects. */
const RUNS = 50;

const GOOD = {
  Service: {
    metadata: { name: "good", namespace: "default" },
    spec: { type: "ClusterIP", clusterIPs: ["10.96.0.200"], ports: [{ name: "p", protocol: "TCP", port: 80 }] },
  },
  EndpointSlice: {
    metadata: { name: "good-1", namespace: "default", labels: { "kubernetes.io/service-name": "good" } },
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.1.9.9"], conditions: { ready: true }, nodeName: "other" }],
    ports: [{ name: "p", protocol: "TCP", port: 8080 }],
  },
} as const;

const IPV6 = {
  localTraffic: { by: "source-prefix", prefix: "fd00:244::/64" },
  nodePortPrefixes: ["fd00:9::1/128"],
} as const;

const SETTINGS = {
  iptables: (family: Family) => podSettings(family === "IPv4" ? {} : IPV6),
  nftables: (family: Family) => nftSettings(family === "IPv4" ? {} : IPV6),
  ipvs: (family: Family) => ipvsModeSettings(family === "IPv4" ? {} : IPV6),
};

/** The verdicts in a rule, apart from jumps to our own chains. */
const TARGETS = /^(KUBE-[A-Za-z0-9-]{1,23}|ACCEPT|DROP|REJECT|RETURN|MARK|MASQUERADE|DNAT)$/;

function assertRestoreLine(line: string): void {
  if (/^(|COMMIT|\*(nat|filter|mangle)|:KUBE-[A-Za-z0-9-]{1,23} - \[0:0\]|-X KUBE-[A-Za-z0-9-]{1,23})$/.test(line)) {
    return;
  }
  const rule = /^-([AID]) ([A-Z0-9a-z-]{1,28}) (.*)$/.exec(line);
  assert.ok(rule, `this is no line for iptables-restore: ${line}`);
  if (rule[1] === "A") assert.match(rule[2]!, /^KUBE-/, line);
  const rest = rule[3]!.replace(/--(comment|bytecode) "[^"\\\n]*"/g, "");
  assert.match(rest, /^[A-Za-z0-9 .,:/!_[\]-]*$/, line);
  for (const [, target] of rest.matchAll(/(?:^| )-j (\S+)/g)) assert.match(target!, TARGETS, line);
}

function assertStatement(statement: string): void {
  assert.match(
    statement,
    /^(add|delete|flush|destroy|create|insert) (table|chain|rule|set|map|element) ip6? sluice\b/,
    statement,
  );
  assert.match(statement, /^[A-Za-z0-9 .,:/!_{}[\]@<>=;"$&|()\n\t-]*$/, statement);
  const elements = /^(?:add|delete) element ip6? sluice \S+ \{ (.*) \}$/.exec(statement);
  if (elements) {
    assert.match(elements[1]!.replace(/\b(affinity|sources)-[A-Za-z0-9-]+/g, ""), /^[a-z0-9 .,:/-]*$/, statement);
  } else assert.doesNotMatch(statement, /ruleset/, statement);
}

const ADDRESS = String.raw`[0-9a-f:.]+`;
const SERVER = String.raw`(-[tu]|--sctp-service) (${ADDRESS}|\[${ADDRESS}\]):\d+`;

/** The input lines of each tool in ipvs mode. */
const IPVS_LINES: ReadonlyMap<string, RegExp> = new Map([
  [
    "ipvsadm",
    new RegExp(
      String
        .raw`^-([AE] ${SERVER} -s rr( -p \d+( -M \d+)?)?|D ${SERVER}|([ae] ${SERVER} -r (${ADDRESS}|\[${ADDRESS}\]):\d+ -m -w [01])|d ${SERVER} -r \S+)$`,
    ),
  ],
  [
    "ipset",
    new RegExp(
      String
        .raw`^((add|del) KUBE-[A-Z0-9-]+ ${ADDRESS}(,(tcp|udp|sctp):\d+(,${ADDRESS}(/\d+)?)?)?|create KUBE-[A-Z0-9-]+ [a-z0-9:, -]+)$`,
    ),
  ],
  ["ip", new RegExp(String.raw`^addr (add|del) ${ADDRESS}/(32|128) dev kube-ipvs0( nodad)?$`)],
]);

function assertIpvsWrite({ tool, input }: { readonly tool: string; readonly input: string }): void {
  const line = IPVS_LINES.get(tool);
  for (const text of input.split("\n")) {
    if (!line) assertRestoreLine(text);
    else if (text !== "") assert.match(text, line);
  }
}

/** The pipeline from objects to the plan. */
function createPipeline() {
  const problems: string[] = [];
  const onProblems = sayProblems((where, message) => problems.push(`${where}: ${message}`));
  const tracking: Tracking = createTracking({
    nodeName: "this-node",
    bindAddress: "0.0.0.0",
    clock: createFakeClock(),
    onChange: () => {},
    onProblems,
    kinds: KINDS,
  });
  const planners = FAMILIES.map((family): [typeof family, FamilyPlanner] => [
    family,
    createFamilyPlanner({ family, nodeName: "this-node", tracking, onProblems }),
  ]);
  return { problems, tracking, planners };
}

Deno.test("no hostile object breaks anything or becomes a rule; each has a clear problem, and valid ones are served", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(hostileObjects, { minLength: 1, maxLength: 40 }), async (objects) => {
      const { problems, tracking, planners } = createPipeline();
      const backends = {
        iptables: new Map(
          await Promise.all(FAMILIES.map(async (f) => [f, await iptablesBackend(undefined, f)] as const)),
        ),
        nftables: new Map(FAMILIES.map((f) => [f, nftablesBackend(undefined, f)] as const)),
        ipvs: new Map(
          await Promise.all(FAMILIES.map(async (f) => [f, await ipvsBackend(createIpvsHost(), f)] as const)),
        ),
      };
      const rounds = [[], objects.slice(0, objects.length >> 1), objects.slice(objects.length >> 1)];
      for (const [round, given] of rounds.entries()) {
        if (round === 0) {
          for (const kind of ["Service", "EndpointSlice"] as const) {
            tracking.set(decodeObject(kind, GOOD[kind]).object!);
          }
        }
        for (const { kind, raw } of given) {
          const { ref, object, problems } = decodeObject(kind, raw);
          if (object) tracking.set(object);
          else if (ref) tracking.delete(ref);
          assert.ok(problems.length <= 11);
          for (const sentence of problems) assertSentence(sentence);
        }
        if (round === 0) KINDS.forEach((kind) => tracking.synced(kind));
        const changes = tracking.take();
        for (const [family, planner] of planners) {
          const { set: planned, deleted } = planner.plan(changes), set = [...planned.values()];
          const delta = { revision: 1, base: undefined, settings: SETTINGS.ipvs(family), set, deleted };
          checkedMessage({ type: "sync", delta } satisfies ToWorker);
          for (const kind of ["iptables", "nftables", "ipvs"] as const) {
            const backend = backends[kind].get(family)!;
            const { problems } =
              await (round === 0 ? backend.snapshot(set, SETTINGS[kind](family)) : backend.change(set, deleted));
            assert.deepEqual(problems, [], `${kind} ${JSON.stringify(problems)}`);
          }
        }
      }
      problems.forEach(assertSentence);
      for (const backend of backends.iptables.values()) {
        for (const input of backend.takeInputs()) input.split("\n").forEach(assertRestoreLine);
      }
      for (const { host } of backends.nftables.values()) host.transactions.flat().forEach(assertStatement);
      for (const backend of backends.ipvs.values()) backend.takeWrites().forEach(assertIpvsWrite);
      const good = { from: "pod-on-node", to: "10.96.0.200", port: 80 } as const;
      for (const { host: { outcomes } } of backends.nftables.values()) {
        if (backends.nftables.get("IPv4")!.host.outcomes !== outcomes) continue;
        assert.deepEqual(outcomes(good).map(({ outcome }) => outcome.destination), ["10.1.9.9:8080"]);
      }
      for (const { runner } of [backends.iptables.get("IPv4")!, backends.ipvs.get("IPv4")!]) {
        assert.deepEqual([...runner.destinations(good).keys()], ["10.1.9.9:8080"]);
      }
    }),
    runs(RUNS),
  );
});

/** One line of bounded length without control characters. */
function assertSentence(sentence: string): void {
  assert.ok(sentence.length < 1000, sentence.slice(0, 200));
  // deno-lint-ignore no-control-regex
  assert.doesNotMatch(sentence, /[\u0000-\u001f\u200b-\u200f\u2028-\u202e]/, JSON.stringify(sentence));
}

Deno.test("10,000 ports and 100,000 endpoints of one service are planned once each", () => {
  const { problems, tracking, planners } = createPipeline();
  const ports = Array.from({ length: 10_000 }, (_, i) => ({ name: `p${i}`, protocol: "TCP", port: i + 1 }));
  const spec = { type: "ClusterIP", clusterIPs: ["10.96.0.9"] };
  const metadata = { name: "wide", namespace: "default" };
  tracking.set(decodeObject("Service", { metadata, spec: { ...spec, ports } }).object!);
  tracking.set(
    decodeObject("Service", {
      metadata: { ...metadata, name: "deep" },
      spec: { ...spec, clusterIPs: ["10.96.0.8"], ports: [ports[0]] },
    }).object!,
  );
  for (let part = 0; part < 100; part++) {
    // Every slice repeats half of the previous one.
    const endpoints = Array.from({ length: 2000 }, (_, i) => {
      const number = (part * 1000 + i) % 100_000;
      return {
        addresses: [`10.${1 + (number >> 16)}.${number >> 8 & 255}.${number & 255}`],
        conditions: { ready: true },
      };
    });
    const labels = { "kubernetes.io/service-name": "deep" };
    const raw = {
      metadata: { name: `deep-${part}`, namespace: "default", labels },
      addressType: "IPv4",
      endpoints,
      ports: [{ name: "p0", port: 80 }],
    };
    tracking.set(decodeObject("EndpointSlice", raw).object!);
  }
  KINDS.forEach((kind) => tracking.synced(kind));
  const set = [...planners[0]![1].plan(tracking.take()).set.values()];
  assert.equal(set.filter(({ name }) => name.startsWith("default/wide:")).length, 10_000);
  assert.equal(set.find(({ name }) => name === "default/deep:p0")!.clusterEndpoints.length, 100_000);
  assert.deepEqual(problems, []);
});
