/** Runs in a checkout that has the toy feature: looks at every place that shows features. */
import assert from "node:assert/strict";
import { manualText } from "../../../cli/commands/about.ts";
import { COMMANDS } from "../../../cli/commands/mod.ts";
import { withManifests, withWholeProxy } from "../whole_proxy.ts";

/** The metrics and the page of a proxy with these flags, after its first sync. */
async function shown(flags: readonly string[]): Promise<{ readonly metrics: string; readonly page: string }> {
  let pages: string[] = [];
  await withManifests("", ({ args }) =>
    withWholeProxy({ args: [...args, ...flags] }, async ({ url, report }) => {
      report("IPv4", {});
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

Deno.test("its metric, problem and status line are shown while it is on, and no trace of it while it is off", async () => {
  const on = await shown(["--toy-greeting", "go away"]);
  assert.match(on.metrics, /sluice_toy_greetings_total [1-9]/);
  assert.match(on.metrics, /sluice_problem\{code="toy-unfriendly",severity="warning"\} 1/);
  assert.match(on.page, /go away, IPv4/);
  assert.match(on.page, /the toy is unfriendly/);
  const off = await shown([]);
  assert.doesNotMatch(off.metrics, /sluice_toy/);
  assert.doesNotMatch(off.page, /go away/);
});
