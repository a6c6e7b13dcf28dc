import assert from "node:assert/strict";
import { createNftSession } from "../../backends/tools/nft_session.ts";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import type { Runner } from "../../backends/tools/runner.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";

const runner = createProcessRunner({ clock: systemClock, path: searchPath() });

/** Runs nft and returns its standard output. */
async function nft(...args: string[]): Promise<string> {
  return (await runner.run({ tool: "nft", args })).stdout;
}

/** A session with a new table, and the processes it has started. */
async function sessionOnTable() {
  requireIsolation();
  await runner.run({
    tool: "nft",
    args: ["-f", "-"],
    stdin: ["add table ip s\ndelete table ip s\nadd table ip s\nadd set ip s a { type ipv4_addr; }\n"],
  });
  const started: string[] = [];
  const counting: Runner = {
    ...runner,
    converse(call) {
      started.push(call.tool);
      return runner.converse!(call);
    },
  };
  return { session: createNftSession({ runner: counting, clock: systemClock }), started };
}

Deno.test("a session confirms a transaction once it is in effect, and runs all of them in one process", async () => {
  const { session, started } = await sessionOnTable();
  for (let i = 0; i < 5; i++) {
    assert.equal(
      await session.transact([`add element ip s a { 10.0.0.${i} }`, `add element ip s a { 10.0.1.${i} }`]),
      true,
    );
    assert.match(await nft("list", "set", "ip", "s", "a"), new RegExp(`10\\.0\\.1\\.${i}\\b`));
  }
  assert.equal(await session.transact(["delete element ip s a { 10.0.0.1 }", "add element ip s a { 10.0.2.1 }"]), true);
  const held = await nft("list", "set", "ip", "s", "a");
  assert.doesNotMatch(held, /10\.0\.0\.1\b/);
  assert.match(held, /10\.0\.2\.1\b/);
  assert.equal(started.length, 1);
});

Deno.test("a refused transaction changes nothing, and the session continues", async () => {
  const { session, started } = await sessionOnTable();
  assert.equal(
    await session.transact(["add element ip s a { 10.9.9.9 }", "delete element ip s a { 10.8.8.8 }"]),
    false,
  );
  assert.doesNotMatch(await nft("list", "set", "ip", "s", "a"), /10\.9\.9\.9/);
  assert.equal(await session.transact(["nonsense"]), false);
  assert.equal(await session.transact(["add element ip s a { 10.9.9.9 }"]), true);
  assert.match(await nft("list", "set", "ip", "s", "a"), /10\.9\.9\.9/);
  assert.equal(started.length, 1);
});

Deno.test("a session sees changes that other programs make", async () => {
  const { session } = await sessionOnTable();
  assert.equal(await session.transact(["add element ip s a { 10.0.0.1 }"]), true);
  await nft("delete", "table", "ip", "s");
  assert.equal(await session.transact(["add element ip s a { 10.0.0.2 }"]), false);
  await nft("add", "table", "ip", "s");
  await nft("add", "set", "ip", "s", "a", "{ type ipv4_addr; }");
  assert.equal(await session.transact(["add element ip s a { 10.0.0.2 }"]), true);
  assert.match(await nft("list", "set", "ip", "s", "a"), /10\.0\.0\.2/);
});

Deno.test("each listing of a session shows what the kernel has then, without a process of its own", async () => {
  const { session, started } = await sessionOnTable();
  assert.equal(await session.list("list set ip s none"), undefined);
  for (let i = 0; i < 5; i++) {
    await nft("add", "element", "ip", "s", "a", `{ 10.0.0.${i} }`);
    const listed = await session.list("list set ip s a");
    assert.equal(listed?.join("\n").match(/10\.0\.0\.\d/g)?.length, i + 1);
  }
  assert.equal(started.length, 1);
});

Deno.test("a session rejects an nft that reports no error for nonsense", async () => {
  const echoing: Runner = {
    ...runner,
    converse: () => runner.converse!({ tool: "sh", args: ["-c", 'while read -r line; do echo "$line" >&2; done'] }),
  };
  assert.equal(await createNftSession({ runner: echoing, clock: systemClock }).transact(["add table ip t"]), false);
});
