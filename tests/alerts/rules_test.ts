/** Checks the alert rules of deploy/alerts.yaml with promtool. */
import assert from "node:assert/strict";
import { parse } from "yaml";
import { DOCUMENTATION } from "../../platform/build.ts";

const ROOT = new URL("../../", import.meta.url);

const isInstalled = await promtool("--version").then(({ success }) => success, () => false);
if (!isInstalled) {
  console.warn("skipped: promtool is not installed (Debian package prometheus)");
}

async function promtool(...args: readonly string[]) {
  const output = await new Deno.Command("promtool", { args: [...args], cwd: ROOT }).output();
  const text = new TextDecoder();
  return { success: output.success, printed: text.decode(output.stdout) + text.decode(output.stderr) };
}

Deno.test({
  name: "promtool accepts the alert rules",
  ignore: !isInstalled,
  async fn() {
    const { success, printed } = await promtool("check", "rules", "deploy/alerts.yaml");
    assert.ok(success, printed);
    assert.match(printed, /16 rules found/);
  },
});

Deno.test({
  name: "each alert fires for its own condition only",
  ignore: !isInstalled,
  async fn() {
    const { success, printed } = await promtool("test", "rules", "tests/alerts/rules.yaml");
    assert.ok(success, printed);
  },
});

Deno.test("each alert links its own section of the documentation", () => {
  const read = (path: string) => Deno.readTextFileSync(new URL(path, ROOT));
  const { groups } = parse(read("deploy/alerts.yaml"));
  const rules: readonly { alert: string; annotations: Record<string, string> }[] = groups[0].rules;
  const sections = [...read("docs/operate.md").matchAll(/^#### (Sluice\w+)$/gm)].map(([, alert]) => alert!);
  assert.deepEqual(rules.map(({ alert }) => alert).sort(), sections.sort());
  for (const { alert, annotations } of rules) {
    assert.equal(annotations["runbook_url"], `${DOCUMENTATION}/operate.md#${alert.toLowerCase()}`);
  }
});
