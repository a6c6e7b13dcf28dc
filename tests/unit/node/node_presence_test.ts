/** A missing Node object or pod CIDR: how it is reported, and what `/healthz` answers meanwhile. */
import assert from "node:assert/strict";
import { createNodeWatch, watchNodePresence } from "../../../node/node_watch.ts";
import { createNodeTracker } from "../../../core/tracking/node_tracker.ts";
import { createProblemBoard } from "../../../core/problems/mod.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createLogger } from "../../../platform/log.ts";
import { startFakeApiServer } from "../../fakes/api_server.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { node } from "../../fakes/cluster_objects.ts";
import { reservePort } from "../../fakes/sockets.ts";
import { withManifests, withWholeProxy } from "../../fakes/whole_proxy.ts";
import { inTime, until } from "../../fakes/wait.ts";

function watched(
  awaitsPodCIDR: boolean,
  others: () => Promise<string> = () => Promise.resolve("the cluster has b, c"),
) {
  const clock = createFakeClock();
  const end = new AbortController();
  const logged: string[] = [];
  const missing: string[] = [];
  const tracker = createNodeTracker({ nodeName: "a", bindAddress: "" });
  const logger = createLogger({ level: "info", format: "text", clock, write: (line) => logged.push(line) });
  const problems = createProblemBoard(clock, logger);
  const options = {
    nodeName: "a",
    node: tracker,
    awaitsPodCIDR,
    otherNodes: others,
    onMissing: (message: string) => void missing.push(message),
    clock,
    problems,
    logger,
    signal: end.signal,
  };
  return { clock, end, logged, missing, problems, tracker, options, start: () => watchNodePresence(options) };
}

Deno.test("a Node still missing after 5 s causes one warning and one Event that list the existing Nodes", async () => {
  const { clock, logged, missing, start } = watched(false);
  const over = start();
  await clock.advanceSettled(4_999);
  assert.deepEqual([logged, missing], [[], []]);
  await clock.advanceSettled(3_600_000);
  await over;
  assert.equal(logged.length, 1);
  assert.match(
    logged[0]!,
    /ERROR there is no Node object .*subject="Node a" detail="the cluster has b, c".*--hostname-override/,
  );
  assert.equal(missing.length, 1);
  assert.match(missing[0]!, /^a: there is no Node object .*--hostname-override.*: the cluster has b, c$/);
});

Deno.test("a Node that appears in time is not reported", async () => {
  const { clock, logged, missing, tracker, start } = watched(false);
  const over = start();
  await clock.advanceSettled(4_000);
  tracker.set("/a", node("a"));
  await clock.advanceSettled(60_000);
  await over;
  assert.deepEqual([logged, missing], [[], []]);
});

Deno.test("a Node that appears while the other ones are being listed is not reported", async () => {
  const listed = Promise.withResolvers<string>();
  const { clock, logged, missing, tracker, start } = watched(false, () => listed.promise);
  const over = start();
  await clock.advanceSettled(5_000);
  tracker.set("/a", node("a"));
  listed.resolve("the cluster has a, b");
  await over;
  assert.deepEqual([logged, missing], [[], []]);
});

Deno.test("if the other Nodes cannot be listed, the warning says why", async () => {
  const { clock, missing, start } = watched(false, () => Promise.reject(new Error("403 Forbidden")));
  const over = start();
  await clock.advanceSettled(5_000);
  await over;
  assert.match(missing[0]!, /^a: there is no Node object .*: the others cannot be listed \(403 Forbidden\)$/);
});

Deno.test("waiting for a pod CIDR is logged immediately and every minute until there is one", async () => {
  const { clock, logged, problems, tracker, start } = watched(true);
  tracker.set("/a", node("a"));
  const over = start();
  assert.equal(logged.length, 1);
  assert.match(
    logged[0]!,
    /ERROR the first sync waits for this node's pod CIDR: detectLocalMode is NodeCIDR.*code=pod-cidr-missing/,
  );
  await clock.advanceSettled(120_000);
  assert.equal(logged.length, 3);
  assert.deepEqual(problems.current().map(({ code }) => code), ["pod-cidr-missing"]);
  tracker.set("/a", node("a", { podCIDRs: ["10.1.0.0/24"] }));
  await clock.advanceSettled(600_000);
  await over;
  assert.equal(logged.length, 3);
  assert.deepEqual(problems.current(), []);
});

Deno.test("a deleted Node object is a problem until it is there again", () => {
  const { logged, problems, options, tracker } = watched(false);
  const watch = createNodeWatch({ ...options, health: { setNodeEligible() {} } });
  const shown = () => problems.current().map(({ code, subject, detail }) => `${code} ${subject}: ${detail}`);
  tracker.set("/a", node("a"));
  watch.onChange({ after: { ...tracker.state(), deleted: true }, changed: ["deleted"] });
  assert.deepEqual(shown(), ["node-deleted Node a: Node a was deleted"]);
  watch.onChange({ after: tracker.state(), changed: ["deleted"] });
  assert.deepEqual(shown(), []);
  assert.match(logged.at(-1)!, /the Node object is there again/);
});

Deno.test("the wait ends with its signal", async () => {
  const { clock, end, start } = watched(true);
  const over = start();
  end.abort(new Error("over"));
  await over;
  assert.deepEqual(clock.pending(), []);
});

Deno.test("/healthz is 503 without a Node object, 200 once it exists, and still 200 after it is deleted", async () => {
  const server = startFakeApiServer();
  const here = { kind: "Node", metadata: { name: "host" } } as const;
  const tainted = { ...here, spec: { taints: [{ key: "ToBeDeletedByClusterAutoscaler" }] } };
  const port = reservePort();
  const healthz = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/healthz`);
    return [answer.status, (await answer.json()).nodeEligible];
  };
  const log = createAwaitedLog();
  server.apply({ kind: "Node", metadata: { name: "elsewhere" } });
  try {
    const args = ["--master", server.url, "--healthz-bind-address", `127.0.0.1:${port}`];
    await withWholeProxy({ args, logger: log.logger }, async () => {
      await log.waitFor("caches synced");
      assert.deepEqual(await healthz(), [503, false]);
      for (const [object, expected] of [[here, [200, true]], [tainted, [503, false]], [here, [200, true]]] as const) {
        server.apply(object);
        await log.waitFor("read the Node object");
        assert.deepEqual(await healthz(), expected);
      }
      server.remove(here);
      await log.waitFor("Node object was deleted");
      assert.deepEqual(await healthz(), [200, true]);
      server.apply(here);
      await log.waitFor("the Node object is there again");
    });
  } finally {
    await server.close();
  }
});

Deno.test("with detectLocalMode NodeCIDR nothing starts before a pod CIDR is known, and the log says so", async () => {
  const server = startFakeApiServer();
  const log = createAwaitedLog();
  const here = { kind: "Node", metadata: { name: "host" } } as const;
  server.apply(here);
  try {
    const args = ["--master", server.url, "--detect-local-mode", "NodeCIDR"];
    await withWholeProxy({ args, logger: log.logger }, async () => {
      await log.waitFor("waits for this node's pod CIDR");
      assert.equal(log.has("caches synced"), false);
      server.apply({ ...here, spec: { podCIDRs: ["10.1.0.0/24"] } });
      await log.waitFor("caches synced");
    });
  } finally {
    await server.close();
  }
});

Deno.test("with manifests as the source, no Node object is needed", async () => {
  const port = reservePort();
  const log = createAwaitedLog();
  await withManifests("", async ({ args }) => {
    const all = [...args, "--healthz-bind-address", `127.0.0.1:${port}`, "--detect-local-mode", "NodeCIDR"];
    await withWholeProxy({ args: all, logger: log.logger }, async () => {
      await log.waitFor("caches synced");
      const status = async () => {
        const answer = await fetch(`http://127.0.0.1:${port}/healthz`);
        await answer.body?.cancel();
        return answer.status;
      };
      // The first sync follows shortly after.
      await until(async () => await status() === 200);
    });
  });
});

/** A logger whose lines can be awaited, each once. */
function createAwaitedLog() {
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  const logger = createLogger({
    level: "info",
    format: "text",
    clock: systemClock,
    write(line) {
      lines.push(line);
      for (const check of [...waiting]) check();
    },
  });
  const waitFor = (text: string) =>
    inTime(
      () => `${text}\n${lines.join("")}`,
      new Promise<void>((resolve) => {
        const check = () => {
          const index = lines.findIndex((line) => line.includes(text));
          if (index === -1) return;
          lines.splice(0, index + 1);
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
    );
  return { logger, waitFor, has: (text: string) => lines.some((line) => line.includes(text)) };
}
