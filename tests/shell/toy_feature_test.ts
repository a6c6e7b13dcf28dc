/** A feature is a folder and a line, and another line for its calls: a checkout gets them, and nothing else changes. */
import assert from "node:assert/strict";

const ROOT = new URL("../../", import.meta.url).pathname;

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(command, { args: [...args], cwd }).output();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  assert.equal(code, 0, text);
  return text;
}

/** Adds an export of a module to the list that begins with `list`. */
async function addTo(file: string, list: string, name: string, module: string): Promise<void> {
  const text = await Deno.readTextFile(file);
  assert.ok(text.includes(list), `${file} has no ${list}`);
  await Deno.writeTextFile(file, `import { ${name} } from "${module}";\n${text.replace(list, `${list}${name}, `)}`);
}

Deno.test("a folder and its lines give a feature its flag, check, metric, problem, status line and call of a worker", async () => {
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
    for (const name of ["calls.ts", "feature.ts", "greeting.ts", "start.ts", "worker.ts"]) {
      const text = await Deno.readTextFile(`${ROOT}/tests/fakes/toy_feature/${name}`);
      await Deno.writeTextFile(
        `${checkout}/features/toy/${name}`,
        text.replaceAll("../../../features/", "../").replaceAll("../../../", "../../"),
      );
    }
    await addTo(`${checkout}/features/registry.ts`, "REGISTERED = [", "toy", "./toy/feature.ts");
    await addTo(`${checkout}/features/calls.ts`, "AnsweredCall[] = [", "greet", "./toy/calls.ts");
    const inCheckout = "tests/fakes/toy_feature/in_checkout.ts";
    const configuration = "tests/unit/config/file_test.ts";
    await run(Deno.execPath(), ["check", "--quiet", inCheckout, configuration, "workers/family.ts"], checkout);
    const test = ["test", "--quiet", "--no-check", "-A"];
    await run(Deno.execPath(), [...test, inCheckout, configuration], checkout);
    const rules = ["--filter", "/^(rooms import|core and workers|a running proxy)/", "tests/unit/structure_test.ts"];
    const passed = await run(Deno.execPath(), [...test, ...rules], checkout);
    assert.match(passed, /3 passed/);
  } finally {
    await Deno.remove(checkout, { recursive: true });
  }
});
