import assert from "node:assert/strict";
import { createConnectionCounter } from "../../../../backends/nftables/open_connections.ts";
import { CONNECTIONS_TABLE, DIALECTS } from "../../../../backends/nftables/table.ts";
import type { ServicePort } from "../../../../core/model/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";

const ONE = "10.1.0.1:8080", TWO = "10.1.0.2:8080";

const web = (...clusterEndpoints: readonly string[]) =>
  fakeServicePort("default/web", {
    clusterEndpoints,
    balance: { algorithm: "least-connections", clusterSlots: clusterEndpoints.map(() => 8) },
  });

/** A counter on a kernel of which only the elements of sets are known. */
function counting() {
  const clock = createFakeClock();
  const sets = new Map<string, Map<string, number>>(), statements: string[] = [], listed: string[] = [];
  let ports: readonly ServicePort[] = [], flows: readonly string[] = [];
  const kernel = { removed: 0, listings: 0, listingFails: false, refuses: false, duringListing() {} };
  const write = (lines: readonly string[]) => {
    if (kernel.refuses) return Promise.reject(new Error("Error: Operation not supported"));
    statements.push(...lines);
    for (const line of lines) {
      const [, set = ""] = /^add set \S+ \S+ (\S+) /.exec(line) ?? [];
      if (set !== "" && !sets.has(set)) sets.set(set, new Map());
      const [, verb, name = "", keys = ""] = /^(add|delete) element \S+ \S+ (\S+) \{ (.*) \}$/.exec(line) ?? [];
      for (const key of keys === "" ? [] : keys.split(", ")) {
        if (verb === "delete") assert.ok(sets.get(name)!.delete(key), `${key} does not exist`);
        else if (!sets.get(name)!.has(key)) sets.get(name)!.set(key, 0);
      }
    }
    return Promise.resolve();
  };
  const counter = createConnectionCounter({
    family: "IPv4",
    desired: { servicePorts: () => ports },
    dialect: DIALECTS.IPv4,
    tools: {
      write,
      removeTable(name) {
        assert.equal(name, CONNECTIONS_TABLE);
        kernel.removed++;
        sets.clear();
        return Promise.resolve(true);
      },
      dialect: DIALECTS.IPv4,
      list(object, onLine) {
        const set = object.split(" ").at(-1)!, elements = sets.get(set);
        listed.push(set);
        const textOf = ([key, packets]: [string, number]) => `${key} counter packets ${packets} bytes ${60 * packets}`;
        if (elements?.size) onLine(`\t\telements = { ${[...elements].map(textOf).join(", ")} }`);
        return Promise.resolve(elements !== undefined);
      },
    },
    readings: {
      transact: () => Promise.resolve(false),
      list: () => Promise.resolve(undefined),
      shows: () => Promise.resolve(false),
    },
    runner: {
      run({ tool, args, onLine }) {
        assert.equal([tool, ...args].join(" "), "conntrack -L -p tcp --state ESTABLISHED -f ipv4");
        kernel.listings++;
        flows.forEach((flow) => onLine!(flow));
        kernel.duringListing();
        return Promise.resolve({ exitCode: kernel.listingFails ? 1 : 0, stdout: "", stderr: "" });
      },
    },
    clock,
    logger: silentLogger,
  });
  const change = (set: string, endpoint: string, by: number) => {
    const key = endpoint.replace(":", " . "), elements = sets.get(set)!;
    elements.set(key, elements.get(key)! + by);
    sets.get("changes")!.set("tcp", sets.get("changes")!.get("tcp")! + by);
  };
  return {
    ...{ clock, sets, statements, listed, kernel },
    open: (endpoint: string, by = 1) => change("opened", endpoint, by),
    end: (endpoint: string, by = 1) => change("ended", endpoint, by),
    serve(...next: readonly ServicePort[]) {
      ports = next;
      counter.noteChange();
    },
    /** The established connections that conntrack lists. */
    track(...endpoints: readonly string[]) {
      flows = endpoints.map((endpoint) => {
        const [address, port] = endpoint.split(":");
        return `tcp      6 431999 ESTABLISHED src=10.9.0.1 dst=10.96.0.1 sport=40000 dport=80 ` +
          `src=${address} dst=10.9.0.1 sport=${port} dport=40000 [ASSURED] mark=0 use=1`;
      });
    },
    async read() {
      const { endpoints } = await counter.read();
      return endpoints &&
        Object.fromEntries([...endpoints].map(([endpoint, { open, opened }]) => [endpoint, [open, opened]]));
    },
  };
}

Deno.test("nothing is counted for services that do not ask for it, and a table of an earlier process is removed", async () => {
  const { serve, read, kernel, statements } = counting();
  serve(fakeServicePort("default/web", { clusterEndpoints: [ONE], balance: { algorithm: "round-robin" } }));
  assert.deepEqual([await read(), kernel.removed, kernel.listings, statements], [{}, 1, 0, []]);
});

Deno.test("each endpoint of services that ask has counters; those of another one that comes or goes are changed alone", async () => {
  const { serve, read, open, end, statements, sets } = counting();
  serve(web(ONE));
  assert.deepEqual(await read(), { [ONE]: [0, 0] });
  open(ONE, 5);
  end(ONE, 2);
  assert.deepEqual(await read(), { [ONE]: [3, 5] });
  statements.length = 0;
  serve(web(ONE, TWO));
  assert.deepEqual(await read(), { [ONE]: [3, 5], [TWO]: [0, 0] });
  assert.deepEqual(
    statements,
    ["ended", "opened"].map((set) => `add element ip sluice-connections ${set} { 10.1.0.2 . 8080 }`),
  );
  serve(web(TWO));
  assert.deepEqual(await read(), { [TWO]: [0, 0] });
  assert.deepEqual([...sets.get("opened")!.keys()], ["10.1.0.2 . 8080"]);
});

Deno.test("endpoints of both traffic policies are counted, and again after a time without any", async () => {
  const { serve, read, kernel } = counting();
  serve({ ...web(ONE), localEndpoints: [TWO] });
  assert.deepEqual(await read(), { [ONE]: [0, 0], [TWO]: [0, 0] });
  serve();
  assert.deepEqual([await read(), kernel.removed], [{}, 1]);
  serve(web(ONE));
  assert.deepEqual(await read(), { [ONE]: [0, 0] });
});

Deno.test("each of thousands of endpoints is added once, at most 1,000 with one statement", async () => {
  for (const count of [999, 1_000, 1_001, 2_500]) {
    const { serve, read, statements } = counting();
    const endpoints = Array.from({ length: count }, (_, i) => `10.1.${i >> 8}.${i & 255}:80`);
    serve(web(...endpoints));
    await read();
    const added = statements.flatMap((line) => /^add element \S+ \S+ opened \{ (.*) \}$/.exec(line)?.[1] ?? [])
      .map((keys) => keys.split(", "));
    assert.ok(added.every(({ length }) => length <= 1_000));
    assert.deepEqual(added.flat(), endpoints.map((endpoint) => endpoint.replace(":", " . ")));
  }
});

Deno.test("a listing takes at most a thousandth of the time, and the first one after a new table comes soon", async () => {
  const { serve, read, track, clock, kernel, sets } = counting();
  serve(web(ONE));
  track(ONE, ONE);
  await read();
  kernel.duringListing = () => clock.advance(1_000);
  clock.advance(10_000);
  assert.deepEqual(await read(), { [ONE]: [2, 0] });
  clock.advance(999_999);
  await read();
  assert.equal(kernel.listings, 1);
  clock.advance(1);
  await read();
  assert.equal(kernel.listings, 2);
  sets.clear();
  await assert.rejects(read);
  assert.deepEqual(await read(), { [ONE]: [0, 0] });
  clock.advance(10_000);
  assert.deepEqual(await read(), { [ONE]: [2, 0] });
});

Deno.test("without a change in the kernel, the counters are not read", async () => {
  const { serve, read, open, listed } = counting();
  serve(web(ONE));
  await read();
  listed.length = 0;
  assert.deepEqual([await read(), listed], [undefined, ["changes"]]);
  open(ONE);
  assert.deepEqual(await read(), { [ONE]: [1, 1] });
});

Deno.test("listings find connections from before, and correct counts of connections that are gone, ever more rarely", async () => {
  const { serve, read, open, end, track, clock, kernel } = counting();
  serve(web(ONE, TWO));
  track(ONE, ONE, "10.1.0.9:8080");
  assert.deepEqual([await read(), kernel.listings], [{ [ONE]: [0, 0], [TWO]: [0, 0] }, 0]);
  clock.advance(10_000);
  assert.deepEqual([await read(), kernel.listings], [{ [ONE]: [2, 0], [TWO]: [0, 0] }, 1]);
  open(TWO, 4);
  clock.advance(19_000);
  assert.deepEqual([await read(), kernel.listings], [{ [ONE]: [2, 0], [TWO]: [4, 4] }, 1]);
  // Three of them end without a packet, and one from before ends.
  track(ONE, TWO);
  clock.advance(1_000);
  assert.deepEqual([await read(), kernel.listings], [{ [ONE]: [1, 0], [TWO]: [1, 4] }, 2]);
  // More endings than openings: an end of a connection from before is none below zero.
  end(ONE, 3);
  assert.deepEqual(await read(), { [ONE]: [0, 0], [TWO]: [1, 4] });
  open(ONE);
  assert.deepEqual(await read(), { [ONE]: [1, 1], [TWO]: [1, 4] });
  kernel.listingFails = true;
  clock.advance(600_000);
  assert.deepEqual(await read(), { [ONE]: [1, 1], [TWO]: [1, 4] });
});

Deno.test("a table that another program deletes is created again, and one of another form replaced; a refusal is an error", async () => {
  const { serve, read, open, sets, kernel } = counting();
  serve(web(ONE));
  await read();
  open(ONE, 2);
  sets.clear();
  await assert.rejects(read, /the set changes of table ip sluice-connections is gone/);
  assert.deepEqual(await read(), { [ONE]: [0, 0] });
  kernel.refuses = true;
  serve(web(ONE, TWO));
  await assert.rejects(read, /Operation not supported/);
  kernel.refuses = false;
  assert.deepEqual(await read(), { [ONE]: [0, 0], [TWO]: [0, 0] });
});

for (
  const [listed, counted] of [
    [8, 6],
    [9, 6],
    [10, 10],
    [3, 6],
    [2, 2],
  ] as const
) {
  Deno.test(`a listing of ${listed} connections while 5 become 6 by 3 changes leaves ${counted}`, async () => {
    const { serve, read, open, end, track, clock, kernel } = counting();
    serve(web(ONE));
    await read();
    open(ONE, 5);
    track(...Array.from({ length: listed }, () => ONE));
    kernel.duringListing = () => {
      open(ONE, 2);
      end(ONE);
    };
    clock.advance(10_000);
    assert.deepEqual(await read(), { [ONE]: [counted, 7] });
  });
}

Deno.test("a chain is added and emptied before its rules, and before rules that lead to it", async () => {
  const { serve, read, statements } = counting();
  serve(web(ONE));
  await read();
  const chains = new Map<string, "added" | "flushed">(), hooks: string[] = [];
  for (const statement of statements) {
    const [, verb, chain = "", rest = ""] = /^(add chain|flush chain|add rule) \S+ \S+ (\S+) ?(.*)$/.exec(statement) ??
      [];
    if (verb === "add chain") {
      chains.set(chain, "added");
      hooks.push(.../hook (\w+) /.exec(rest)?.slice(1) ?? []);
    } else if (verb === "flush chain") {
      assert.equal(chains.get(chain), "added", statement);
      chains.set(chain, "flushed");
    } else if (verb === "add rule") {
      for (const one of [chain, .../\b(?:goto|jump) (\S+)/.exec(rest)?.slice(1) ?? []]) {
        assert.equal(chains.get(one), "flushed", `${one} in ${statement}`);
      }
    }
  }
  assert.deepEqual(hooks.toSorted(), ["forward", "input", "output"]);
});
