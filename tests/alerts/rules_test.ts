/** What Prometheus' own tool says of the alert rules, and what they say of made-up nodes. */
import assert from "node:assert/strict";

const isInstalled = await promtool("--version").then(({ success }) => success, () => false);
if (!isInstalled) {
  console.warn("left out: there is no promtool here (Debian's package prometheus has it)");
}

async function promtool(...args: readonly string[]) {
  const root = new URL("../../", import.meta.url).pathname;
  const output = await new Deno.Command("promtool", { args: [...args], cwd: root }).output();
  const text = new TextDecoder();
  return { success: output.success, said: text.decode(output.stdout) + text.decode(output.stderr) };
}

Deno.test({
  name: "promtool takes the alert rules",
  ignore: !isInstalled,
  async fn() {
    const { success, said } = await promtool("check", "rules", "deploy/alerts.yaml");
    assert.ok(success, said);
    assert.match(said, /10 rules found/);
  },
});

Deno.test({
  name: "each alert is raised by what it is for, and by nothing else",
  ignore: !isInstalled,
  async fn() {
    const { success, said } = await promtool("test", "rules", "tests/alerts/rules.yaml");
    assert.ok(success, said);
  },
});
