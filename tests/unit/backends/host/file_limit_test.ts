import assert from "node:assert/strict";
import {
  adjustOomScore,
  ENOUGH_FOR_RELAY,
  findOpenFiles,
  judgeOpenFiles,
  raiseOpenFiles,
} from "../../../../backends/host/process_limits.ts";
import { type Runner, ToolMissingError } from "../../../../backends/tools/runner.ts";
import { shareFiles } from "../../../../node/proxy_options.ts";

/** A prlimit for a process with these limits, which it may change as the kernel allows. */
function host(soft: number, hard: number | "unlimited") {
  const calls: string[] = [];
  const runner: Runner = {
    run({ tool, args }) {
      calls.push([tool, ...args].join(" "));
      const limits = args.find((arg) => arg.startsWith("--nofile="));
      if (limits === undefined) return Promise.resolve({ exitCode: 0, stdout: `${soft} ${hard}\n`, stderr: "" });
      const wanted = Number(/^--nofile=(\d+):$/.exec(limits)?.[1]);
      const allowed = hard === "unlimited" || wanted <= hard;
      return Promise.resolve({ exitCode: allowed ? 0 : 1, stdout: "", stderr: allowed ? "" : "not permitted" });
    },
  };
  return { runner, calls };
}

Deno.test("the soft limit is raised up to the hard limit, and not beyond what is useful", async () => {
  for (
    const [soft, hard, raised] of [[1024, 4096, 4096], [1024, "unlimited", 65536], [1024, 1_048_576, 65536]] as const
  ) {
    const { runner, calls } = host(soft, hard);
    assert.equal((await raiseOpenFiles(runner, 42)).soft, raised);
    assert.equal(calls[1], `prlimit --pid 42 --nofile=${raised}:`);
  }
  const relaying = host(1024, 1_048_576);
  assert.equal((await raiseOpenFiles(relaying.runner, 42, ENOUGH_FOR_RELAY)).soft, ENOUGH_FOR_RELAY);
  const { runner, calls } = host(1_048_576, 1_048_576);
  assert.equal((await raiseOpenFiles(runner, 42)).soft, 1_048_576, "never lowered");
  assert.equal(calls.length, 1);
});

Deno.test("a prlimit that is missing, fails or prints something else is an error", async () => {
  const answering = (exitCode: number, stdout: string): Runner => ({
    run: () => Promise.resolve({ exitCode, stdout, stderr: "bad" }),
  });
  await assert.rejects(findOpenFiles({ run: () => Promise.reject(new ToolMissingError("prlimit")) }), ToolMissingError);
  await assert.rejects(findOpenFiles(answering(1, "")), /prlimit/);
  await assert.rejects(findOpenFiles(answering(0, "none")), /printed no limits/);
});

Deno.test("a low or unknown limit is reported with a fix", () => {
  const verdict = (soft: number, hard: number) => judgeOpenFiles({ soft, hard }).verdict;
  assert.deepEqual([verdict(1024, 524_288), verdict(65_536, 65_536), verdict(1024, 1024)], [
    "green",
    "green",
    "yellow",
  ]);
  assert.match(judgeOpenFiles(undefined).message, /prlimit.*missing/);
  assert.match(judgeOpenFiles({ soft: 1024, hard: 1024 }).fix!, /LimitNOFILE/);
});

Deno.test("listeners and connections leave descriptors for the tools at any limit", () => {
  for (const limit of [undefined, 64, 256, 1024, 4096, 65_536]) {
    const { connections, listeners } = shareFiles(limit);
    const left = (limit ?? 1024) - connections - listeners;
    assert.ok(left >= Math.min(256, (limit ?? 1024) / 2), `${left} of ${limit} are left`);
    assert.ok(connections > 0 && listeners > 0);
  }
  assert.ok(shareFiles(65_536).listeners > 32_768, "a listener for every node port");
});

Deno.test("a refused OOM score is returned with choom's reason", async () => {
  const answering = (exitCode: number): Runner => ({
    run: ({ tool, args }) => {
      assert.deepEqual([tool, ...args], ["choom", "-n", "-998", "-p", String(Deno.pid)]);
      return Promise.resolve({ exitCode, stdout: "", stderr: exitCode === 0 ? "" : "Permission denied" });
    },
  });
  assert.equal(await adjustOomScore(answering(0), -998), undefined);
  assert.match((await adjustOomScore(answering(1), -998))!, /Permission denied/);
});
