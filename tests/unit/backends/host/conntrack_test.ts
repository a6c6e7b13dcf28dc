import assert from "node:assert/strict";
import { type ServicePort, type ServicePortKey, servicePortKey } from "../../../../core/model/mod.ts";
import { createConntrackCleaner } from "../../../../backends/host/conntrack.ts";
import type { Runner, ToolResult } from "../../../../backends/tools/runner.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";

const DONE: ToolResult = { exitCode: 0, stdout: "", stderr: "" };
const DNS = fakeServicePort("default/dns", { protocol: "udp", port: 53 });

/** A cleaner of the flows of some service ports. */
function cleanerOf(runner: Runner, clock = createFakeClock()) {
  const cleaner = createConntrackCleaner({ family: "IPv4", runner, logger: silentLogger, clock });
  const ports = new Map<ServicePortKey, ServicePort>();
  const known = { servicePort: (key: ServicePortKey) => ports.get(key), servicePorts: () => ports.values() };
  const rules = { problems: () => [], takeEarlierUdpFrontends: () => new Set<string>() };
  return {
    /** Sets a service port, or deletes it. */
    change(port: ServicePort, isDeleted = false): void {
      const key = servicePortKey(port.name, port.protocol);
      const [set, deleted] = isDeleted ? [[], [key]] : [[port], []];
      cleaner.noteDelta(known, { base: 1, revision: 2, settings: undefined, set, deleted });
      if (isDeleted) ports.delete(key);
      else ports.set(key, port);
    },
    async clean() {
      const { problems: [problem], figures } = await cleaner.afterSync(rules, known);
      return { deleted: figures.conntrack_deleted, problem };
    },
  };
}

/** A runner whose runs wait until the test ends them. */
function heldRunner() {
  const runs: PromiseWithResolvers<ToolResult>[] = [];
  const runner: Runner = {
    run() {
      const run = Promise.withResolvers<ToolResult>();
      runs.push(run);
      return run.promise;
    },
  };
  return { runner, runs };
}

/**
 * A cleaner of `before`, whose first run of conntrack fails once it was released, and whose later runs list UDP flows from
 * 10.9.9.9 to the cluster IP of `DNS`, each answered by one of `answeredBy`.
 */
async function cleanerThatFailsFirst(before: ServicePort, answeredBy: readonly string[]) {
  const failing = Promise.withResolvers<never>();
  const deleted: string[] = [];
  let runs = 0, isReleased = false;
  const cleaner = cleanerOf({
    run({ args, onLine, stdin }) {
      if (isReleased && runs++ === 0) return failing.promise;
      answeredBy.forEach((address, i) => {
        const original = `src=10.9.9.9 dst=${DNS.clusterIP} sport=${4000 + i} dport=53`;
        if (args[0] === "-L") onLine!(`udp 17 29 ${original} src=${address} dst=10.9.9.9 sport=5353 dport=${4000 + i}`);
      });
      for (const [, address] of [...stdin ?? []].join("").matchAll(/-r (\S+)/g)) deleted.push(address!);
      return Promise.resolve(DONE);
    },
  });
  cleaner.change(before);
  await cleaner.clean();
  deleted.length = 0;
  isReleased = true;
  return {
    cleaner,
    /** Starts a cleanup that fails after these changes, and then another one; returns the endpoints whose flows it deletes. */
    async deletedAfter(changes: () => void): Promise<readonly string[]> {
      const first = cleaner.clean();
      changes();
      failing.reject(new Error("conntrack was killed"));
      assert.match((await first).problem!.message, /conntrack was killed/);
      await cleaner.clean();
      return deleted;
    },
  };
}

const withPods = (...pods: readonly string[]) => ({ ...DNS, clusterEndpoints: pods.map((pod) => `${pod}:5353`) });

Deno.test("a change between a noted one and the cleanup counts, although it makes no flow stale", async () => {
  const pods = ["10.1.0.1", "10.1.0.2", "10.1.0.3"];
  const { cleaner, deletedAfter } = await cleanerThatFailsFirst(withPods("10.1.0.1", "10.1.0.2"), pods);
  cleaner.change(withPods("10.1.0.2"));
  cleaner.change(withPods("10.1.0.2", "10.1.0.3"));
  assert.deepEqual(await deletedAfter(() => {}), ["10.1.0.1"]);
});

Deno.test("a service that stays without endpoints starts no conntrack", async () => {
  const { runner, runs } = heldRunner();
  const cleaner = cleanerOf(runner);
  cleaner.change(withPods());
  const first = cleaner.clean();
  runs[0]!.resolve(DONE);
  await first;
  cleaner.change({ ...withPods(), affinitySeconds: 60 });
  assert.deepEqual(await cleaner.clean(), { deleted: 0, problem: undefined });
  assert.equal(runs.length, 1);
});

Deno.test("the flows of a deleted service are deleted after a cleanup that failed", async () => {
  const { cleaner, deletedAfter } = await cleanerThatFailsFirst(withPods("10.1.0.1"), ["10.1.0.1"]);
  cleaner.change(DNS, true);
  assert.deepEqual(await deletedAfter(() => {}), ["10.1.0.1"]);
});

Deno.test("flows to a service that takes over a frontend while a cleanup fails are kept", async () => {
  const { cleaner, deletedAfter } = await cleanerThatFailsFirst(withPods("10.1.0.1"), ["10.1.0.1", "10.1.0.2"]);
  cleaner.change(DNS, true);
  const heir = { ...withPods("10.1.0.2"), name: "default/heir" };
  assert.deepEqual(await deletedAfter(() => cleaner.change(heir)), ["10.1.0.1"]);
});

Deno.test("a service that is deleted while a cleanup of its flows fails loses all of them", async () => {
  const pods = ["10.1.0.1", "10.1.0.2"];
  const { cleaner, deletedAfter } = await cleanerThatFailsFirst(withPods(...pods), pods);
  cleaner.change(withPods("10.1.0.2"));
  assert.deepEqual(await deletedAfter(() => cleaner.change(DNS, true)), pods);
});

/** A conntrack with one flow from the cluster IP of `DNS` to each endpoint, whose deletions end as `deletion` says. */
function runnerOf(endpoints: readonly string[], deletion: (args: readonly string[]) => ToolResult) {
  const deletions: string[][] = [];
  const runner: Runner = {
    run({ args, onLine, stdin }) {
      if (args[0] === "-L") {
        endpoints.forEach((address, i) => {
          const original = `src=10.9.9.9 dst=${DNS.clusterIP} sport=${4000 + i} dport=53`;
          onLine!(`udp 17 29 ${original} src=${address} dst=10.9.9.9 sport=5353 dport=${4000 + i}`);
        });
        return Promise.resolve(DONE);
      }
      deletions.push(stdin ? Array.from(stdin, (line) => line.trimEnd()) : [args.join(" ")]);
      return Promise.resolve(deletion(args));
    },
  };
  return { runner, deletions };
}

const failing = (exitCode: number, message: string): ToolResult => (
  { exitCode, stdout: "", stderr: `conntrack v1.4 (conntrack-tools): ${message}\n` }
);

const deletionOf = (endpoint: string) =>
  `-D -f ipv4 -p udp -d ${DNS.clusterIP} --dport 53 -r ${endpoint} --reply-port-src 5353`;

Deno.test("flows are deleted by their destination and endpoint, with one filter for all clients", async () => {
  const { runner, deletions } = runnerOf(["10.1.0.1", "10.1.0.1", "10.1.0.2", "10.1.0.3"], () => DONE);
  const cleaner = cleanerOf(runner);
  cleaner.change(withPods("10.1.0.3"));
  assert.deepEqual(await cleaner.clean(), { deleted: 3, problem: undefined });
  assert.deepEqual(deletions, [["10.1.0.1", "10.1.0.2"].map(deletionOf)]);
});

Deno.test("a flow that ends while it is being deleted is no failure, and the flows after it are deleted", async () => {
  const { runner, deletions } = runnerOf(
    ["10.1.0.1", "10.1.0.2"],
    () => deletions.length < 3 ? failing(1, "Operation failed: such conntrack doesn't exist") : DONE,
  );
  const cleaner = cleanerOf(runner);
  cleaner.change(withPods("10.1.0.3"));
  assert.deepEqual(await cleaner.clean(), { deleted: 2, problem: undefined });
  assert.equal(deletions.length, 3);
});

Deno.test("a conntrack that fails in every run is a problem", async () => {
  const { runner } = runnerOf(["10.1.0.1"], () => failing(1, "Operation failed: such conntrack doesn't exist"));
  const cleaner = cleanerOf(runner);
  cleaner.change(withPods("10.1.0.3"));
  assert.match((await cleaner.clean()).problem!.message, /such conntrack doesn't exist/);
});

Deno.test("a hanging conntrack delays a sync by one second, and its result is reported later", async () => {
  const { runner, runs } = heldRunner();
  const clock = createFakeClock();
  const cleaner = cleanerOf(runner, clock);
  cleaner.change(DNS);
  const first = cleaner.clean();
  await clock.advanceSettled(1000);
  assert.deepEqual(await first, { deleted: 0, problem: undefined });
  // The next sync does not start another run in parallel.
  const second = cleaner.clean();
  runs[0]!.reject(new Error("conntrack did not end within 60 s and was killed"));
  assert.match((await second).problem!.message, /cannot remove stale UDP flows.*was killed/);
  assert.equal(runs.length, 1);
  const third = cleaner.clean();
  runs[1]!.resolve(DONE);
  assert.deepEqual(await third, { deleted: 0, problem: undefined });
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a late failure of conntrack is no problem once the flows are removed", async () => {
  const { runner, runs } = heldRunner();
  const clock = createFakeClock();
  const cleaner = cleanerOf(runner, clock);
  cleaner.change(DNS);
  const first = cleaner.clean();
  await clock.advanceSettled(1000);
  await first;
  runs[0]!.reject(new Error("conntrack was killed"));
  await settled();
  const second = cleaner.clean();
  runs[1]!.resolve(DONE);
  assert.deepEqual(await second, { deleted: 0, problem: undefined });
});

Deno.test("changes noted while entries are being removed are processed right after", async () => {
  const { runner, runs } = heldRunner();
  const cleaner = cleanerOf(runner);
  cleaner.change(DNS);
  const cleaning = cleaner.clean();
  cleaner.change(DNS, true);
  runs[0]!.resolve(DONE);
  await settled();
  assert.equal(runs.length, 2);
  runs[1]!.resolve(DONE);
  await cleaning;
});
