import assert from "node:assert/strict";
import { ROOT } from "./as_executable.ts";

/** The output of a command. */
async function printed(tool: string, ...args: string[]): Promise<string> {
  const { stdout } = await new Deno.Command(tool, { args, stdin: "null" }).output();
  return new TextDecoder().decode(stdout).trim();
}

Deno.test("machineCores counts all cores of the machine, regardless of the process's CPU affinity", async () => {
  const code = `import { machineCores } from "file://${ROOT}platform/host.ts"; console.log(await machineCores());`;
  const folder = await Deno.makeTempDir({ dir: "/run" });
  Deno.writeTextFileSync(`${folder}/cores.ts`, code);
  const deno = [Deno.execPath(), "run", "--quiet", "--no-check", "--allow-sys=cpus", `${folder}/cores.ts`];
  assert.equal(await printed("taskset", "--cpu-list", "0", ...deno), await printed("getconf", "_NPROCESSORS_ONLN"));
  await Deno.remove(folder, { recursive: true });
});
