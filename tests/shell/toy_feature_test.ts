/** A feature is a folder and a line: a checkout gets both, and nothing else changes. */
import assert from "node:assert/strict";

const ROOT = new URL("../../", import.meta.url).pathname;

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(command, { args: [...args], cwd }).output();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  assert.equal(code, 0, text);
  return text;
}

Deno.test("a folder and a line in the registry give a feature its flag, check, metric, problem and status line", async () => {
  const checkout = await Deno.makeTempDir();
  try {
    const files = (await run("git", ["ls-files", "-co", "--exclude-standard"], ROOT)).split("\n")
      .filter((path) => /^(?!docs|demo|dist)[^/]*(\.json|\.lock|main\.ts)$|\.ts$|^deploy\//.test(path));
    for (const path of files) {
      await Deno.mkdir(`${checkout}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
      await Deno.copyFile(`${ROOT}/${path}`, `${checkout}/${path}`).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
    }
    await Deno.mkdir(`${checkout}/features/toy`);
    for (const name of ["feature.ts", "start.ts"]) {
      const text = await Deno.readTextFile(`${ROOT}/tests/fakes/toy_feature/${name}`);
      await Deno.writeTextFile(
        `${checkout}/features/toy/${name}`,
        text.replaceAll("../../../features/", "../").replaceAll("../../../", "../../"),
      );
    }
    const registry = `${checkout}/features/registry.ts`;
    const text = await Deno.readTextFile(registry);
    await Deno.writeTextFile(
      registry,
      `import { toy } from "./toy/feature.ts";\n${text.replace("const REGISTERED = [", "const REGISTERED = [toy, ")}`,
    );
    const inCheckout = "tests/fakes/toy_feature/in_checkout.ts";
    await run(Deno.execPath(), ["test", "--quiet", "-A", inCheckout], checkout);
  } finally {
    await Deno.remove(checkout, { recursive: true });
  }
});
