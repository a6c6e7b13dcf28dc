import assert from "node:assert/strict";
import { type Conversation, type Runner, ToolEndedError } from "../../../../backends/tools/runner.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import type { PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

const COUNTING = nftSettings({ countsAttempts: true, serviceRanges: ["10.96.0.0/16"] });
const WEB = fakeServicePort("default/web:http", { clusterEndpoints: ["10.1.0.1:8080"] });
/** An nft that is well until it gets a line. */
function failing(how: "dies" | "prints no listing"): Conversation {
  return {
    ask: (text, end) =>
      how === "dies" && text !== `${end}\n`
        ? Promise.reject(new ToolEndedError("nft"))
        : Promise.resolve("Error: syntax error\n"),
    isOpen: () => true,
    close() {},
  };
}

const SYN = { from: "pod-on-node", to: "10.96.0.10", port: 80 } satisfies PacketRequest;

Deno.test("attempts and their answers are counted by endpoint, and nothing else is", async () => {
  const { host, backend, snapshot } = backendUnderTest();
  await snapshot(
    [WEB, fakeServicePort("default/dns", { protocol: "udp", clusterIP: "10.96.0.11", port: 53 })],
    COUNTING,
  );
  assert.deepEqual(await backend.attemptCounts!(), new Map());
  for (const from of ["pod-on-node", "node", "outside"] as const) host.send({ ...SYN, from });
  host.send({ ...SYN, to: "10.96.0.11", port: 53, protocol: "udp" });
  host.send({ ...SYN, to: "10.9.9.9" });
  host.send({ ...SYN, state: "ESTABLISHED" });
  assert.deepEqual(await backend.attemptCounts!(), new Map([["10.1.0.1:8080", { made: 3, answered: 0 }]]));
  const answer = { from: "outside", to: "10.1.7.7", port: 40_000, state: "ESTABLISHED", isSynAck: true } as const;
  host.send({ ...answer, sourcePort: 8080 });
  const counts = await backend.attemptCounts!();
  assert.equal([...counts.values()].reduce((sum, { answered }) => sum + answered, 0), 1);
});

Deno.test("many readings of attempts take one nft, whose successor is started in time", async () => {
  const host = createFakeNftHost();
  const { runner } = host, started: string[] = [];
  const noting: Runner = {
    run(call) {
      started.push(`nft ${call.args.join(" ")}`);
      return runner.run(call);
    },
    converse(call) {
      started.push("a session");
      return runner.converse!(call);
    },
  };
  const { backend, snapshot } = backendUnderTest({ ...host, runner: noting });
  await snapshot([WEB], COUNTING);
  started.length = 0;
  const readings = 900;
  for (let made = 1; made <= readings; made++) {
    host.send(SYN);
    assert.deepEqual(await backend.attemptCounts!(), new Map([["10.1.0.1:8080", { made, answered: 0 }]]));
  }
  assert.deepEqual(started, ["a session"]);
  for (let more = 0; more < readings; more++) await backend.attemptCounts!();
  assert.deepEqual(started, ["a session", "a session"]);
});

Deno.test("attempts are read without a session, and once nft dies in one", async () => {
  for (const converse of [undefined, () => failing("dies"), () => failing("prints no listing")]) {
    const host = createFakeNftHost();
    const { backend, snapshot, clock } = backendUnderTest({ ...host, runner: { ...host.runner, converse } });
    await snapshot([WEB], COUNTING);
    host.send(SYN);
    const reading = backend.attemptCounts!();
    await clock.advanceSettled(10_000);
    assert.equal((await reading).get("10.1.0.1:8080")?.made, 1);
  }
});

Deno.test("packets are refused and dropped as without counters", async () => {
  for (const settings of [COUNTING, { ...COUNTING, countsAttempts: undefined }]) {
    const { host, snapshot } = backendUnderTest();
    await snapshot([WEB, fakeServicePort("default/none", { clusterIP: "10.96.0.12", internal: "reject" })], settings);
    for (const from of ["pod-on-node", "node", "outside"] as const) {
      assert.equal(host.send({ ...SYN, from }).destination, "10.1.0.1:8080");
      assert.equal(host.send({ ...SYN, from, to: "10.96.0.12" }).verdict, "rejected");
      assert.equal(host.send({ ...SYN, from, to: "10.96.0.99" }).verdict, "dropped");
      assert.equal(host.send({ ...SYN, from, port: 99 }).verdict, "rejected");
    }
  }
});

Deno.test("counters are kept by comparisons, taken over, and removed when counting ends", async () => {
  const host = createFakeNftHost();
  const first = backendUnderTest(host);
  await first.snapshot([WEB], COUNTING);
  host.send(SYN);
  const { counts } = await first.backend.resync();
  assert.equal(counts.drift_repaired, 0);
  const second = backendUnderTest(host);
  const taken = await second.snapshot([WEB], COUNTING);
  assert.equal(taken.counts["nftables_transactions"], 0);
  assert.equal((await second.backend.attemptCounts!()).get("10.1.0.1:8080")?.made, 1);
  for (const next of [second, backendUnderTest(host)]) {
    await next.snapshot([WEB], nftSettings());
    assert.deepEqual(await next.backend.attemptCounts!(), new Map());
    assert.ok(!next.table().sets.has("count-attempts"));
    assert.ok(![...next.table().chains.keys()].some((name) => name.endsWith("-new")));
    assert.equal((await next.backend.resync()).counts.drift_repaired, 0);
    await next.snapshot([WEB], COUNTING);
    assert.equal(host.send(SYN).destination, "10.1.0.1:8080");
    assert.equal((await next.backend.attemptCounts!()).size, 1);
    assert.equal((await next.backend.resync()).counts.drift_repaired, 0);
  }
});

Deno.test("established packets are compared with two rules of each filter chain, and one that protects loopback addresses", async () => {
  const { snapshot, table } = backendUnderTest();
  await snapshot([WEB], { ...COUNTING, serviceRanges: ["10.96.0.0/16", "10.97.0.0/16", "10.98.0.0/16"] });
  const rules = ["filter-input", "filter-forward", "filter-output"].map((name) => table().chains.get(name)!.rules);
  assert.deepEqual(rules.map(({ length }) => length), [3, 2, 2]);
  assert.match(rules[0]![0]!, /127\.0\.0\.0\/8 iifname != "lo" jump martians$/);
});

Deno.test("the unanswered attempts of an endpoint that is left out are forgotten once its rules are gone", async () => {
  const { host, snapshot, change } = backendUnderTest();
  const both = { ...WEB, clusterEndpoints: ["10.1.0.1:8080", "10.1.0.2:8080"] };
  await snapshot([both], COUNTING);
  const attempt = (sourcePort: number, endpoint: string, state?: "SYN_SENT") => ({
    protocol: "tcp" as const,
    state,
    source: "10.1.7.7",
    sourcePort,
    destination: "10.96.0.10",
    destinationPort: 80,
    answeredBy: { address: endpoint, port: 8080 },
  });
  const left = [attempt(2, "10.1.0.1"), attempt(3, "10.1.0.2", "SYN_SENT")];
  host.conntrack.push(attempt(1, "10.1.0.1", "SYN_SENT"), ...left);
  const out = { ...both, clusterEndpoints: ["10.1.0.2:8080"], unreachableEndpoints: ["10.1.0.1:8080"] };
  await change([out]);
  assert.deepEqual(host.conntrack, left);
  // Once, not with every change while it is left out.
  host.conntrack.push(attempt(4, "10.1.0.1", "SYN_SENT"));
  await change([{ ...out, affinitySeconds: 9 }]);
  assert.equal(host.conntrack.length, 3);
});

Deno.test("if many endpoints are left out, all unanswered attempts of services are forgotten at once", async () => {
  const { host, snapshot, change } = backendUnderTest();
  const all = Array.from({ length: 8 }, (_, i) => `10.1.0.${i + 1}:8080`);
  await snapshot([{ ...WEB, clusterEndpoints: all }], COUNTING);
  for (const [i, address] of ["10.1.0.1", "10.1.0.9", "10.9.9.9"].entries()) {
    host.conntrack.push({
      ...{ protocol: "tcp", state: "SYN_SENT", source: "10.1.7.7", sourcePort: i + 1, destinationPort: 80 },
      ...{ destination: i === 2 ? "10.9.9.9" : "10.96.0.10", answeredBy: { address, port: 80 } },
    });
  }
  await change([{ ...WEB, clusterEndpoints: all.slice(4), unreachableEndpoints: all.slice(0, 4) }]);
  assert.deepEqual(host.conntrack.map(({ sourcePort }) => sourcePort), [3]);
});
