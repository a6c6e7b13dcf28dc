/** Checks the alert rules of deploy/alerts.yaml with promtool. */
import assert from "node:assert/strict";

const isInstalled = await promtool("--version").then(({ success }) => success, () => false);
if (!isInstalled) {
  console.warn("skipped: promtool is not installed (Debian package prometheus)");
}

async function promtool(...args: readonly string[]) {
  const root = new URL("../../", import.meta.url).pathname;
  const output = await new Deno.Command("promtool", { args: [...args], cwd: root }).output();
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
