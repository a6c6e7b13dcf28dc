import assert from "node:assert/strict";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import { createStateSource } from "../../../../sources/state/mod.ts";
import { writeStateFile } from "../../../../sources/state/write.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { passingDuring } from "../../../fakes/wait.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";
import { createRecordingSink, recordedStateFiles, type RecordingSink } from "../../../fakes/kpng.ts";
import { sayProblems } from "../../../fakes/problems.ts";

/** Runs a source for a state file with this content; `write` replaces it. */
async function withStateFile(
  content: string | undefined,
  test: (sink: RecordingSink, write: (content: string) => void, path: string) => Promise<void>,
): Promise<void> {
  const folder = Deno.makeTempDirSync();
  const path = `${folder}/state.yaml`;
  const write = (content: string) => {
    Deno.writeTextFileSync(`${path}.new`, content);
    Deno.renameSync(`${path}.new`, path);
  };
  if (content !== undefined) write(content);
  const stop = new AbortController();
  const clock = createFakeClock();
  const sink = createRecordingSink(clock);
  const ended = createStateSource({ path, inFull: true, clock, logger: silentLogger }).run(
    sink,
    stop.signal,
  );
  try {
    await test(sink, write, path);
  } finally {
    stop.abort();
    await passingDuring(clock, ended);
    Deno.removeSync(folder, { recursive: true });
  }
}

const short = (lines: readonly string[]) => lines.map((line) => line.split(" ").slice(0, 3).join(" ")).sort();

Deno.test("only changes in the file are reported", async () => {
  const { before, after } = recordedStateFiles();
  await withStateFile(before, async (sink, write) => {
    await sink.until("synced Node");
    const lines = sink.take();
    assert.equal(lines.filter((line) => line.startsWith("set EndpointSlice")).length, 3);
    assert.equal(lines.filter((line) => line.startsWith("set Node")).length, 2);
    assert.ok(!lines.some((line) => line.startsWith("problem")), lines.join("\n"));
    write(after);
    await sink.until("delete Service default/sticky");
    const changed = sink.take();
    assert.equal(changed.length, 2);
    assert.match(changed.find((line) => line.startsWith("set"))!, /^set EndpointSlice default\/web\..*10\.180\.1\.23/);
  });
});

Deno.test("a file that KPNG wrote is read whole: nulls, 64-bit hashes, session affinity, filters without targets", async () => {
  const dump = Deno.readTextFileSync(new URL("../../../fixtures/kpng/dump.yaml", import.meta.url));
  await withStateFile(dump, async (sink) => {
    await sink.until("synced Node");
    const lines = sink.take();
    assert.ok(!lines.some((line) => line.startsWith("problem")), lines.join("\n"));
    const serviceLine = (name: string) => lines.find((line) => line.startsWith(`set Service default/${name} `))!;
    assert.match(serviceLine("sticky"), /"affinitySeconds":600/);
    assert.match(serviceLine("web"), /"sourceRanges":\["203\.0\.113\.0\/24"\]/);
    assert.equal(lines.filter((line) => line.startsWith("set Service")).length, 5);
  });
});

for (const hash of ["18446744073709551616", "-1", "1.5", '"7"']) {
  Deno.test(`the hash ${hash} is no unsigned 64-bit integer, and the file is refused`, async () => {
    await withStateFile(`services:\n- service:\n    name: web\n  endpoints:\n  - hash: ${hash}\n`, async (sink) => {
      await sink.until("hash must be an integer of 64 bits without a sign");
    });
  });
}

Deno.test("a missing file is waited for; a deleted one stays in effect", async () => {
  await withStateFile(undefined, async (sink, write, path) => {
    await sink.until("no such file");
    assert.ok(!sink.take().some((line) => line.startsWith("synced")));
    write(recordedStateFiles().before);
    await sink.until("synced Node");
    sink.take();
    Deno.removeSync(path);
    await sink.until("no such file; its last valid version stays in effect");
    assert.deepEqual(short(sink.take()), [`problem ${path}: no`]);
  });
});

Deno.test("a folder in place of the file is a problem that names it once", async () => {
  await withStateFile(undefined, async (sink, _write, path) => {
    Deno.mkdirSync(path);
    await sink.until("Is a directory");
    assert.equal(sink.take().at(-1), `problem ${path}: Is a directory`);
  });
});

Deno.test("a file is looked for once, until an event or the time for the next look", async () => {
  const folder = await Deno.makeTempDir(), clock = createFakeClock(), stop = new AbortController();
  let looks = 0;
  const sink = { ...createRecordingSink(clock), problems: () => void looks++ };
  const ended = createStateSource({ path: `${folder}/state.yaml`, inFull: true, clock, logger: silentLogger })
    .run(sink, stop.signal);
  const turns = async () => {
    for (let turn = 0; turn < 50; turn++) await Deno.lstat(folder);
    return looks;
  };
  while (looks === 0) await turns();
  assert.equal(await turns(), 1);
  stop.abort();
  await ended;
  await Deno.remove(folder, { recursive: true });
});

const MISTAKES: readonly (readonly [name: string, text: string, problem: RegExp])[] = [
  [
    "an unknown field of a service",
    "services:\n- service:\n    name: a\n    clusterip: 10.0.0.1\n",
    /:4: .*a service has no field "clusterip", only namespace, name/,
  ],
  [
    "an unknown field at the top",
    "nodes: []\nendpoints: []\n",
    /:2: .*the state has no field "endpoints", only nodes, services/,
  ],
  ["what is Sluice's own", "nodes:\n- {name: a, addresses: [10.0.0.1]}\n", /:2: .*a node has no field "addresses"/],
  [
    "a text for a number",
    "services:\n- service:\n    name: a\n    ports:\n    - port: http\n",
    /:5: .*port must be an integer/,
  ],
  [
    "a number for true or false",
    "services:\n- service: {name: a}\n  endpoints:\n  - conditions:\n      ready: 1\n",
    /:5: .*ready must be true or false/,
  ],
  ["a list for a mapping", "services:\n- service: []\n", /:2: .*a service must be a mapping/],
  ["a mapping for a list", "nodes: {}\n", /:1: .*nodes must be a list/],
  ["no YAML", "nodes:\n- {name: a\n", /:\d: /],
  [
    "an item of more than 16 MiB",
    `nodes:\n- name: a\n- name: ${"b".repeat(16 * 2 ** 20)}\n`,
    /:3: an item of more than 16 MiB/,
  ],
  ["a file of more than 16 MiB that cannot be split", `nodes: [${" ".repeat(16 * 2 ** 20)}]\n`, /:1: an item of more/],
];

for (const [name, text, problem] of MISTAKES) {
  Deno.test(`a state file with ${name} is refused with its line, and the last valid version stays`, async () => {
    const { before } = recordedStateFiles();
    await withStateFile(before, async (sink, write) => {
      await sink.until("synced Node");
      sink.take();
      write(text);
      await sink.until("stays in effect");
      const lines = sink.take();
      assert.equal(lines.length, 1);
      assert.match(lines[0]!, problem);
      write(before.replace("10.180.1.21", "10.180.1.99"));
      await sink.until("10.180.1.99");
    });
  });
}

Deno.test("unusable parts of a file are reported with their line, and the rest is used", async () => {
  const text = "services:\n- service:\n    name: web\n    ips: {clusterips: {v4: [10.0.0.1]}}\n" +
    "    ports: [{port: 80, protocol: 7}, {name: a, port: 81, protocol: 1, targetport: 8081}]\n" +
    "  endpoints:\n  - endpoint: {ips: {v4: [10.1.0.1]}}\n  - endpoint: {ips: {v4: [nonsense]}}\n";
  await withStateFile(text, async (sink) => {
    await sink.until("synced Node");
    const lines = sink.take();
    const problems = lines.filter((line) => line.startsWith("problem"));
    assert.equal(problems.length, 2);
    assert.match(problems[0]!, /state\.yaml:3: Service default\/web: port 1: protocol "number 7"/);
    assert.match(problems[1]!, /state\.yaml:8: Service default\/web: endpoint address "nonsense"/);
    assert.match(lines.find((line) => line.startsWith("set EndpointSlice"))!, /"address":"10.1.0.1","ready":true/);
  });
});

Deno.test("a written state file reads as the same state", async () => {
  const clock = systemClock;
  const store = createStore({
    clock,
    onProblems: sayProblems((where, message) => assert.fail(`${where}: ${message}`)),
  });
  const details = { labels: { app: "web" }, annotations: {}, mapIP: false };
  store.set(service("default/web", {
    type: "LoadBalancer",
    clusterIPs: ["10.0.0.1", "fd00::1"],
    loadBalancerIPs: ["192.0.2.1"],
    sourceRanges: ["203.0.113.0/24"],
    externalPolicyLocal: true,
    healthCheckNodePort: 32000,
    affinitySeconds: 60,
    ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080, target: { port: 8080, name: "" } }],
    details,
  }));
  store.set(endpointSlice("default/web-1", [
    endpoint("10.1.0.1", {
      nodeName: "node-1",
      zone: "a",
      zoneHints: ["a"],
      details: { podName: "p1", hostname: "h" },
    }),
    endpoint("10.1.0.2", { ready: false, serving: false }),
  ]));
  store.set(
    endpointSlice("default/web-2", [endpoint("fd00:1::1", { details: { podName: "p3", hostname: "" } })], {
      family: "IPv6",
    }),
  );
  store.set(node("node-1", { zone: "a" }));
  for (const kind of KINDS) store.synced(kind);
  const first = [...writeStateFile(store.state())].join("");
  const second = createStore({
    clock,
    onProblems: sayProblems((where, message) => assert.fail(`${where}: ${message}`)),
  });
  await withStateFile(first, async (sink) => {
    await sink.until("synced Node");
    for (const line of sink.take()) {
      const object = /^set \S+ \S+ (.*)$/.exec(line)?.[1];
      if (object !== undefined) second.set(JSON.parse(object));
    }
  });
  const [written] = second.state().services;
  const { target: _, ...port } = store.state().services[0]!.service!.ports[0]!;
  assert.deepEqual(written!.service, {
    ...store.state().services[0]!.service!,
    ports: [{ ...port, target: { port: 8080, name: "" } }],
  });
  assert.deepEqual(
    written!.slices.flatMap(({ ports, endpoints }) =>
      endpoints.map(({ address, ready, nodeName, zoneHints }) => ({
        address,
        ready,
        nodeName,
        zoneHints,
        ports: ports.map(({ port }) => port),
      }))
    ).sort((a, b) => a.address < b.address ? -1 : 1),
    [
      { address: "10.1.0.1", ready: true, nodeName: "node-1", zoneHints: ["a"], ports: [8080] },
      { address: "10.1.0.2", ready: false, nodeName: "other", zoneHints: undefined, ports: [8080] },
      { address: "fd00:1::1", ready: true, nodeName: "other", zoneHints: undefined, ports: [8080] },
    ],
  );
  // An override equal to the service's target is not written; everything else is unchanged.
  const again = [...writeStateFile(second.state())].join("");
  assert.equal(
    again.replaceAll(/,?"portoverrides":\[[^\]]*\]/g, ""),
    first.replaceAll(/,?"portoverrides":\[[^\]]*\]/g, ""),
  );
});
