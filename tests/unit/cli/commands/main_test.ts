import assert from "node:assert/strict";
import { main } from "../../../../main.ts";

/** Runs the program and captures its standard output. */
async function printedBy(args: readonly string[]): Promise<string> {
  const write = Deno.stdout.writeSync;
  let stdout = "";
  Deno.stdout.writeSync = (bytes) => {
    stdout += new TextDecoder().decode(bytes);
    return bytes.length;
  };
  try {
    assert.equal(await main(args), 0);
    return stdout;
  } finally {
    Deno.stdout.writeSync = write;
  }
}

/** Runs the program and captures its standard error. */
async function runMain(args: readonly string[]): Promise<{ status: number; stderr: string }> {
  const write = Deno.stderr.writeSync;
  let stderr = "";
  Deno.stderr.writeSync = (bytes) => {
    stderr += new TextDecoder().decode(bytes);
    return bytes.length;
  };
  try {
    return { status: await main(args), stderr };
  } finally {
    Deno.stderr.writeSync = write;
  }
}

Deno.test("a usage error exits with status 2 and prints one line per mistake to standard error", async () => {
  const { status, stderr } = await runMain(["--bogus", "--oom-score-adj=5000"]);
  assert.equal(status, 2);
  assert.match(stderr, /^sluice: unknown flag --bogus.*\nsluice: --oom-score-adj is 5000: .*\n$/);
});

Deno.test("--write-config-to writes a file that --config accepts", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/out.yaml`;
    assert.deepEqual(await runMain(["--write-config-to", path, "--oom-score-adj=7"]), { status: 0, stderr: "" });
    assert.match(await Deno.readTextFile(path), /^oomScoreAdj: 7$/m);
    const again = `${folder}/again.yaml`;
    assert.equal((await runMain(["--config", path, "--write-config-to", again])).status, 0);
    assert.equal(await Deno.readTextFile(again), await Deno.readTextFile(path));
    const nowhere = await runMain(["--write-config-to", `${folder}/missing/out.yaml`]);
    assert.equal(nowhere.status, 1);
    assert.match(nowhere.stderr, /cannot write .*missing\/out\.yaml: No such file or directory\n$/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("--write-config-to - writes to standard output", async () => {
  assert.match(await printedBy(["--write-config-to", "-", "--oom-score-adj=7"]), /^oomScoreAdj: 7$/m);
});

Deno.test("help lists the flags of the source only for commands that read one, and the flags of its examples", async () => {
  for (const command of ["version", "man", "completion", "uninstall", "status", "top"]) {
    assert.doesNotMatch(await printedBy([command, "--help"]), /--kubeconfig/, command);
  }
  assert.match(await printedBy(["explain", "--help"]), /--kubeconfig/);
  const install = await printedBy(["install", "--help"]);
  for (const flag of ["--cluster-cidr", "--proxy-mode"]) assert.ok(install.includes(`  ${flag} `), flag);
});

Deno.test("output to a full disk is a failure, to a closed pipe none", async () => {
  const write = Deno.stdout.writeSync;
  const source = new URL("../../../../deploy/example", import.meta.url).pathname;
  const lines = { help: ["--help"], get: ["get", "services", "--source", `file:${source}`] };
  try {
    for (const [name, args] of Object.entries(lines)) {
      Deno.stdout.writeSync = () => {
        throw new Deno.errors.BrokenPipe("Broken pipe");
      };
      assert.equal((await runMain(args)).status, 0, name);
      Deno.stdout.writeSync = () => {
        throw new Error("No space left on device");
      };
      const { status, stderr } = await runMain(args);
      assert.equal(status, 1, name);
      assert.match(stderr, /^sluice(?: get)?: cannot write to standard output: No space left on device\n$/);
    }
  } finally {
    Deno.stdout.writeSync = write;
  }
});

Deno.test("a command that prints until it is stopped ends when nobody reads its output any more", async () => {
  const write = Deno.stdout.writeSync;
  const source = new URL("../../../../deploy/example", import.meta.url).pathname;
  Deno.stdout.writeSync = () => {
    throw new Deno.errors.BrokenPipe("Broken pipe");
  };
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error("it goes on")), 60_000);
  try {
    assert.equal(await Promise.race([main(["watch", "services", "--source", `file:${source}`]), late.promise]), 0);
  } finally {
    clearTimeout(timer);
    Deno.stdout.writeSync = write;
  }
});
