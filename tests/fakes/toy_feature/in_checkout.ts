/** Runs in a checkout that has the toy feature: looks at every place that shows features. */
import assert from "node:assert/strict";
import { manualText } from "../../../cli/commands/about.ts";
import { COMMANDS } from "../../../cli/commands/mod.ts";
import type { CallWorker } from "../../../core/model/mod.ts";
import { FAMILIES, type Family, silentLogger, systemClock } from "../../../platform/mod.ts";
import { checkedMessage } from "../../../workers/checked_message.ts";
import { superviseFamily } from "../../../workers/supervise.ts";
import { familyCode } from "../../../workers/calls.ts";
import { createWorkerPool } from "../../../workers/worker_pool.ts";
import { withManifests, withWholeProxy } from "../whole_proxy.ts";

/** Real workers of the families. They may run no tool, so they answer calls and sync nothing. */
interface Workers {
  readonly call: (family: Family) => CallWorker;
  /** Resolves when a call to each of them has ended. */
  readonly answered: Promise<unknown>;
}

async function withWorkers(test: (workers: Workers) => Promise<void>): Promise<void> {
  const codeOf = (family: Family) => ({ ...familyCode(family), tools: [] });
  const spawnOf = createWorkerPool({ codeOf, path: "", onLost() {} });
  const links = new Map(FAMILIES.map((family) => [
    family,
    superviseFamily({
      start: { type: "start", family, mode: "nftables", logLevel: "error", logFormat: "text", kernel: [] },
      spawn: (listener) => spawnOf(family, listener),
      listener: { onReset() {}, onReport() {}, onProblems() {}, onHealth() {} },
      answerTimeoutMs: 60_000,
      clock: systemClock,
      logger: silentLogger,
      memory: () => () => {},
    }),
  ]));
  const answered = new Map(FAMILIES.map((family) => [family, Promise.withResolvers<void>()]));
  const call = (family: Family): CallWorker => async (...args) => {
    try {
      return await links.get(family)!.call(...args);
    } finally {
      answered.get(family)!.resolve();
    }
  };
  try {
    await test({ call, answered: Promise.all([...answered.values()].map(({ promise }) => promise)) });
  } finally {
    await Promise.all([...links.values()].map((link) => link.stop()));
  }
}

/** The metrics and the page of a proxy with these flags, after its first sync. */
async function shown(
  flags: readonly string[],
  { call, answered }: Partial<Workers> = {},
): Promise<{ readonly metrics: string; readonly page: string }> {
  let pages: string[] = [];
  await withManifests("", ({ args }) =>
    withWholeProxy({ args: [...args, ...flags], call }, async ({ url, report }) => {
      report("IPv4", {});
      await answered;
      pages = await Promise.all(["metrics", ""].map(async (path) => await (await fetch(url + path)).text()));
    }));
  const [metrics = "", page = ""] = pages;
  return { metrics, page };
}

Deno.test("the manual has its flag", async () => {
  assert.match(await manualText(COMMANDS), /toy\\-greeting/);
});

Deno.test("a wrong setting is refused", async () => {
  const file = await Deno.makeTempFile({ suffix: ".yaml" });
  await Deno.writeTextFile(
    file,
    "kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\ntoy: { period: 1ms }\n",
  );
  await assert.rejects(shown(["--config", file]), /toy\.period is 1: must be 10ms or longer/);
});

Deno.test("a worker answers its call, and refuses an invalid request", async () => {
  await withWorkers(async (workers) => {
    const { page } = await shown(["--toy-greeting", "good day"], workers);
    assert.match(page, /good day, IPv4/);
    assert.match(page, /good day, IPv6/);
  });
  const message = { type: "call", number: 1, name: "greet", request: { greeting: "; flush ruleset" } };
  assert.throws(() => checkedMessage(message), /invalid field "request" in a message of type call/);
});

Deno.test("its metric, problem and status line are shown while it is on, and no trace of it while it is off", async () => {
  const on = await shown(["--toy-greeting", "go away"]);
  assert.match(on.metrics, /sluice_toy_greetings_total [1-9]/);
  assert.match(on.metrics, /sluice_problem\{code="toy-unfriendly",severity="warning"\} 1/);
  assert.match(on.page, /no greeting/);
  assert.match(on.page, /Toy: says go away/);
  assert.match(on.page, /the toy is unfriendly/);
  const off = await shown([]);
  assert.doesNotMatch(off.metrics, /sluice_toy/);
  assert.doesNotMatch(off.page, /no greeting|Toy/);
});
