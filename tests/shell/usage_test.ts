/** The scripts of the project answer `--help`, and refuse options that they do not know, before they do anything. */
import assert from "node:assert/strict";
import { run } from "./shell.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** All that a script may need for its usage: it finds no program that could do harm. */
const TOOLS = ["bash", "sh", "sed", "dirname", "cat", "awk"];
/** Package managers alone run these, with arguments of their own. */
const HOOKS = "build/release/hooks/";
/** Gives all its options to another program, which refuses them. */
const PASSES_ON = ".ci/conformance";
const DEADLINE_MS = 30_000;

/** The executable files of the repository that a shell runs. */
async function scripts(): Promise<readonly string[]> {
  const files = (await run("git", ["-C", ROOT, "ls-files", "--stage"])).trimEnd().split("\n");
  return files.filter((line) => line.startsWith("100755 ")).map((line) => line.split("\t")[1]!)
    .filter((path) => /^#!.*sh\n/.test(Deno.readTextFileSync(ROOT + path)) && !path.startsWith(HOOKS));
}

/** Runs a script in an empty folder, without any program but these tools. Throws if it writes a file. */
async function inEmptyFolder(script: string, arg: string) {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${folder}/tools`);
    for (const tool of TOOLS) {
      const path = (await run("sh", ["-c", `command -v ${tool}`])).trim();
      await Deno.symlink(path, `${folder}/tools/${tool}`);
    }
    const { code, stdout, stderr } = await new Deno.Command(ROOT + script, {
      args: [arg],
      cwd: folder,
      clearEnv: true,
      env: { PATH: `${folder}/tools`, HOME: folder, TMPDIR: folder },
      stdin: "null",
      signal: AbortSignal.timeout(DEADLINE_MS),
    }).output();
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name), ["tools"], script);
    const decoder = new TextDecoder();
    return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const found = await scripts();

Deno.test("the scripts of the project are found", () => {
  for (const known of ["install.sh", ".ci/run", "tests/cluster/build"]) assert.ok(found.includes(known), known);
});

for (const script of found) {
  Deno.test(`${script} prints its usage`, async () => {
    const { code, stdout, stderr } = await inEmptyFolder(script, "--help");
    assert.deepEqual([code, stderr], [0, ""], script);
    assert.match(stdout, /\S+ \S+/);
    assert.doesNotMatch(stdout, /^#/m);
  });

  if (script === PASSES_ON) continue;
  Deno.test(`${script} refuses an unknown option`, async () => {
    const { code, stdout, stderr } = await inEmptyFolder(script, "--no-such-option");
    assert.deepEqual([code, stdout], [2, ""], script);
    assert.match(stderr, /unknown .*--no-such-option/);
  });
}
